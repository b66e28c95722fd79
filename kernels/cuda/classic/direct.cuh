/* SPDX-License-Identifier: MIT */
/* direct-classic and direct64: a thread makes one output sample, tap by tap; a sum is a float or a double. */
#pragma once

#include "classic.cuh"

namespace {

enum { BLOCK_WIDTH = 32, BLOCK_HEIGHT = 8, CONSTANT_TAPS = 7936 }; /* constants of a kernel: 32 KB, less the arguments */

template <int TAPS> struct parameters : arguments {
  const float *weights;
  float taps[TAPS]; /* K x R x S taps, if TAPS > 1; otherwise kernels read `weights` */
};

template <class Sum, class In, int TAPS> DEVICE float sum_of_filter(const parameters<TAPS> &a, const place &at, int32_t k) {
  const gconv_problem &problem = a.problem;
  const int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  int64_t tap = (int64_t)k * problem.rows * problem.columns;
  Sum sum = 0;
  for (int64_t r = 0; r < problem.rows; r++)
    for (int64_t s = 0; s < problem.columns; s++, tap++) {
      const float weight = TAPS > 1 ? a.taps[tap] : a.weights[tap];
      if (sizeof(Sum) > sizeof(float) && gconv_is_mark(weight))
        continue;
      const float x =
          sample_at<In>(problem, at.in, a.in_row, top + r * problem.dilation_y, left + s * problem.dilation_x, at.c);
      sum = fma((Sum)weight, (Sum)x, sum);
    }
  return (float)sum;
}

template <class Sum, class In, class Out, int TAPS>
__global__ void __launch_bounds__(1024) convolve(const __grid_constant__ parameters<TAPS> a) {
  const gconv_problem &problem = a.problem;
  const int64_t channels = (int64_t)problem.images * problem.planes * problem.channels;
  const int64_t own_row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y, rows = (int64_t)gridDim.y * blockDim.y;
  const int64_t own_column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, columns = (int64_t)gridDim.x * blockDim.x;
  for (int64_t z = blockIdx.z; z < channels; z += gridDim.z) {
    uint8_t *out;
    place at = begin_channel(a, z, &out);
    for (at.p = own_row; at.p < problem.out_height; at.p += rows)
      for (at.q = own_column; at.q < problem.out_width; at.q += columns)
        store_sample<In, Out>(a, a.weights, at, out + at.p * a.out_row + at.q * a.out_pixel,
                              [&](int32_t k) { return sum_of_filter<Sum, In>(a, at, k); });
  }
}

/* ---- The host ---- */

template <class Sum, class In, class Out, int TAPS> void launch(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const dim3 block = block_for(problem, 1024, BLOCK_WIDTH, BLOCK_HEIGHT);
  parameters<TAPS> a = {common_arguments(execution), execution->weights, {}};
  for (int64_t t = 0; TAPS > 1 && t < gconv_tap_count(problem); t++)
    a.taps[t] = execution->host_weights[t];
  convolve<Sum, In, Out, TAPS><<<grid_of(problem, block), block, 0, (cudaStream_t)execution->stream>>>(a);
}

} // namespace
