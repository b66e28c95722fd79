/* SPDX-License-Identifier: MIT */
/*
 * direct64: direct-classic with sums in float64, for filters of which float32 would lose digits.
 *
 * A thread makes one output sample, tap by tap. The product of a tap and a sample is exact, and a sum of n of them is off by
 * n * 2^-53; it is rounded to float32 once. The order is that of the definition, so the bits are those of direct64 of the
 * CPU. `auto` takes it where the bounds of faster algorithms are too large.
 */
#include "classic.cuh"

namespace {

enum { BLOCK_WIDTH = 32, BLOCK_HEIGHT = 8 };

struct parameters : arguments {
  const float *weights;
};

template <class In> DEVICE float sum_of_filter(const parameters &a, const place &at, int32_t k) {
  const gconv_problem &problem = a.problem;
  const int64_t top = at.p * problem.stride_y - problem.pad_top, left = at.q * problem.stride_x - problem.pad_left;
  const float *tap = a.weights + (int64_t)k * problem.rows * problem.columns;
  double sum = 0;
  for (int64_t r = 0; r < problem.rows; r++)
    for (int64_t s = 0; s < problem.columns; s++, tap++)
      if (!gconv_is_mark(*tap))
        sum = fma((double)*tap,
                  (double)sample_at<In>(problem, at.in, a.in_row, top + r * problem.dilation_y,
                                        left + s * problem.dilation_x, at.c),
                  sum);
  return (float)sum;
}

template <class In, class Out> __global__ void __launch_bounds__(1024) convolve(const __grid_constant__ parameters a) {
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
                              [&](int32_t k) { return sum_of_filter<In>(a, at, k); });
  }
}

/* ---- The host ---- */

template <class In, class Out> void launch(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const dim3 block = block_for(problem, 1024, BLOCK_WIDTH, BLOCK_HEIGHT);
  const parameters a = {common_arguments(execution), execution->weights};
  convolve<In, Out><<<grid_of(problem, block), block, 0, (cudaStream_t)execution->stream>>>(a);
}

gconv_status execute(const gconv_execution *execution) {
  return launch_by_types(execution->problem, [&](auto in, auto out) { launch<decltype(in), decltype(out)>(execution); });
}

const char *supports(const gconv_problem *) {
  return NULL;
}

/* direct-classic takes 73 instructions a tap on an H200; conversions and a product of float64 come on top. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return classic_ms(problem, machine, 80.0 * problem->rows * problem->columns + 60);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_direct64 = {
    .info = {"direct64", "cuda", "all taps, with sums in float64, where float32 would lose digits", false},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_float64_bound,
    .leaves_out_marks = true,
};
