/* SPDX-License-Identifier: MIT */
/* Sums of layers by the definition, for outputs where a faster algorithm's own sum is not finite. */
#pragma once

#include "kernels/layer_problem.h"

#include <cuda_runtime_api.h>

namespace {

/* Returns the sum of a filter at output (p, q), by the definition, without its bias. `in` is the first channel of the
 * filter's group. Algorithms that mix samples call this where their own sum is not finite. It is not inlined, because it
 * would take registers from kernels. */
__device__ __noinline__ float defined_sum(const gconv_layer_problem *problem, const float *in, const float *weights,
                                          int64_t p, int64_t q) {
  const int64_t top = p * problem->stride_y - problem->pad_top, left = q * problem->stride_x - problem->pad_left;
  float sum = 0;
  for (int c = 0; c < problem->channels / problem->groups; c++, in += gconv_layer_plane(problem))
    for (int64_t r = 0; r < problem->rows; r++)
      for (int64_t s = 0; s < problem->columns; s++, weights++) {
        const int64_t y = top + r * problem->dilation_y, x = left + s * problem->dilation_x;
        const bool inside = y >= 0 && y < problem->height && x >= 0 && x < problem->width;
        sum = fmaf(__ldg(weights), inside ? __ldg(in + y * problem->width + x) : 0, sum);
      }
  return sum;
}

} // namespace
