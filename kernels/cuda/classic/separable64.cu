/* SPDX-License-Identifier: MIT */
/*
 * separable64: columns times rows for filters of any size, with sums in float64.
 *
 *      input            middle (floats, in global memory)       output
 *      . . x . .        . . . . .                               . . . . .
 *      . . x . .   ->   . . m . .  R taps of the column         . . . . .
 *      . . x . .        .[m m m].  S taps of the row       ->   . . y . .
 *
 * Pass 1: a thread makes one sample of the middle, from R samples of a column. The middle has the columns of the image, and
 * one column for places outside of it. Pass 2: a thread makes one output, from S samples of a row of the middle, which the
 * border continues as it would continue the image. So the middle of an output row is as wide as the image, however large the
 * filter is.
 *
 * A filter of rank n has n such middles (kernels/factor.h). Each direction is rounded to float32 once.
 */
#include "separable.cuh"

namespace {

/* Pass 1: makes the middle. */
template <class In> __global__ void filter_columns(const __grid_constant__ parameters a) {
  const gconv_problem &problem = a.problem;
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, rank = problem.structure.rank;
  const int64_t x = i / problem.channels;
  if (i >= a.middle_samples)
    return;
  for (int64_t pair = blockIdx.z; pair < problem.filters * rank; pair += gridDim.z) {
    const int64_t k = pair / rank;
    const float *taps = a.factors + k * rank * (problem.rows + problem.columns) + (pair - k * rank) * problem.rows;
    for (int64_t j = blockIdx.y; j < a.band_rows; j += gridDim.y) {
      const int64_t top = (a.band + j) * problem.stride_y - problem.pad_top;
      double sum = 0;
      for (int64_t r = 0; r < problem.rows; r++)
        sum = fma(
            (double)taps[r],
            (double)sample_at<In>(problem, a.in, a.in_row, top + r * problem.dilation_y, x, (int)(i - x * problem.channels)),
            sum);
      a.middle[(pair * a.band_rows + j) * a.middle_samples + i] = (float)sum;
    }
  }
}

/* Returns the sum of filter k for output row j of the band, column q and channel c. */
DEVICE float filter_row(const parameters &a, int64_t j, int64_t q, int32_t c, int32_t k) {
  const gconv_problem &problem = a.problem;
  const int64_t rank = problem.structure.rank;
  const float *tap = a.factors + k * rank * (problem.rows + problem.columns) + rank * problem.rows;
  double sum = 0;
  for (int64_t pair = k * rank; pair < (k + 1) * rank; pair++) {
    const float *row = a.middle + (pair * a.band_rows + j) * a.middle_samples;
    for (int64_t s = 0; s < problem.columns; s++) {
      int64_t x = gconv_border_index(problem.border, q * problem.stride_x - problem.pad_left + s * problem.dilation_x,
                                     problem.width);
      x = x == GCONV_OUTSIDE ? problem.width : x;
      sum = fma((double)*tap++, (double)row[x * problem.channels + c], sum);
    }
  }
  return (float)sum;
}

/* Pass 2: makes the outputs. */
template <class In, class Out> __global__ void filter_rows(const __grid_constant__ parameters a) {
  const gconv_problem &problem = a.problem;
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, q = i / problem.channels;
  if (i >= a.samples)
    return;
  for (int64_t j = blockIdx.y; j < a.band_rows; j += gridDim.y) {
    const place at = {a.band + j, q, (int32_t)(i - q * problem.channels), a.in};
    store_sample<In, Out>(a, a.weights, at, a.out + at.p * a.out_row + q * a.out_pixel,
                          [&](int32_t k) { return filter_row(a, j, q, at.c, k); });
  }
}

/* ---- The host ---- */

middle_shape middle_of(const gconv_problem *problem) {
  return {((int64_t)problem->width + 1) * problem->channels, 1, 1, middles_of(problem)};
}

size_t workspace_bytes(const gconv_problem *problem) {
  return middle_bytes(problem, middle_of(problem));
}

gconv_status execute(const gconv_execution *execution) {
  return launch_by_types(execution->problem, [&](auto in, auto out) {
    launch_passes(execution, middle_of(execution->problem), filter_columns<decltype(in)>,
                  filter_rows<decltype(in), decltype(out)>);
  });
}

double error_bound(const gconv_problem *problem) {
  return problem->structure.residual + problem->structure.growth * gconv_rounding_bound(2 + 4);
}

const char *supports(const gconv_problem *problem) {
  const char *obstacle = gconv_factor_obstacle(problem);
  return obstacle ? obstacle : band_obstacle(problem, middle_of(problem));
}

/* Counts 30 instructions for a tap of either pass: both check borders. On an H200, launches and float64 make it 2.1 times as
 * long. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return 2.1 * passes_ms(problem, machine, 30.0 * ((double)problem->columns + problem->rows));
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_separable64 = {
    .info = {"separable64", "cuda", "columns, then rows, of filters of any size, with sums in float64", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = gconv_factor_floats,
    .prepare = gconv_factor_filters,
};
