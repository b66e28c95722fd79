/* SPDX-License-Identifier: MIT */
/* Infinite samples and NaN in a layer on tensor cores (tensor.cuh). An infinity has no second digit. Times a weight 0 that
 * only fills up a unit, it is NaN. So outputs that share its units become something else than in float32. A flag tells of
 * such inputs. Then outputs that are not finite are computed again, one by one, in float32. */
#pragma once

#include "kernels/activation.h"
#include "tensor_work.cuh"

namespace tensor {

__device__ __forceinline__ bool is_finite(float v) {
  return (__float_as_uint(v) & 0x7f800000) != 0x7f800000;
}

/* Returns the sum of output (row, column) of filter k in float32, as layer_problem.h defines it. */
static __device__ __noinline__ float plain_sum(const gconv_layer_problem &p, const float *images, const float *weights,
                                               int32_t image, int32_t k, int32_t row, int32_t column) {
  const int32_t channels = p.channels / p.groups, first = k / (p.filters / p.groups) * channels;
  const float *weight = weights + k * gconv_layer_taps(&p);
  float sum = 0;
  for (int32_t c = 0; c < channels; c++)
    for (int32_t r = 0; r < p.rows; r++)
      for (int32_t s = 0; s < p.columns; s++, weight++) {
        const int32_t y = row * p.stride_y - p.pad_top + r * p.dilation_y,
                      x = column * p.stride_x - p.pad_left + s * p.dilation_x;
        const bool inside = (uint32_t)y < (uint32_t)p.height && (uint32_t)x < (uint32_t)p.width;
        const float *in = images + ((int64_t)image * p.channels + first + c) * p.height * p.width;
        sum = fmaf(*weight, inside ? in[(int64_t)y * p.width + x] : 0.0f, sum);
      }
  return sum;
}

/* Checks what a warp has stored: 16 rows of the product for the positions of a tile. */
static __device__ __noinline__ void mend(const arguments *a, int32_t group, uint32_t first, uint32_t end,
                                         int32_t first_row) {
  const gconv_layer_problem &p = a->problem;
  const int32_t wide = a->c.how == BAND ? a->c.unit : 1;
  for (int32_t i = threadIdx.x % 32; i < POSITIONS; i += 32) {
    const place at = place_of(*a, first + i);
    for (int32_t row = first_row; row < first_row + 16; row++) {
      const int32_t k = row / wide, q = at.strip * a->c.strip + at.column * wide + row % wide;
      if (first + i >= end || at.image >= p.images || at.row >= p.out_height || at.column >= a->c.columns ||
          q >= p.out_width || k >= a->c.filters)
        continue;
      const int32_t filter = group * a->c.filters + k;
      float *out = a->out + (((int64_t)at.image * p.filters + filter) * p.out_height + at.row) * p.out_width + q;
      if (!is_finite(*out))
        *out = gconv_activate(&p, plain_sum(p, a->in, a->plain_weights, at.image, filter, at.row, q) + a->biases[filter]);
    }
  }
}

} // namespace tensor
