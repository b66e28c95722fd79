/* SPDX-License-Identifier: MIT */
/*
 * separable-classic: a filter that is a column times a row, in two passes. Many blurs and derivatives are.
 *
 *      1 2 1     1                    input          middle (floats, in global memory)          output
 *      2 4 2  =  2  *  1 2 1          . . . . .      . . . . .                                  . . . . .
 *      1 2 1     1                    .[x x x].  ->  . . m . .   S taps of the row              . . . . .
 *                                     . . . . .      . .[m]. .                                  . . . . .
 *                                     . . . . .      . .[m]. .   R taps of the column      ->   . . y . .
 *                                     . . . . .      . .[m]. .                                  . . . . .
 *
 * Pass 1: a thread makes one sample of the middle, from S samples of a row. Pass 2: a thread makes one output, from R
 * samples of a column of the middle. A filter of rank n is the sum of n such pairs (kernels/factor.h), and has a middle for
 * each pair.
 *
 * Arithmetic: 2 (R + S) flop per output and pair, instead of 2 R S: 124 instead of 1922 at 31 x 31. Bytes: 4 read, 4 written
 * to the middle, 4 read from there, 4 written: 16 per output (f32), where one pass has 8. So the speed is at most half that
 * of a copy. But the bound is the number of instructions: each tap takes many, as in direct-classic.
 *
 * Sums have another order than in the definition, and products of columns and rows only approximate the taps: so results
 * differ in the last bits. The bound of the error is the same as for separable on the CPU: S roundings along rows, R down
 * columns for each pair, and some for taps and pairs.
 */
#include "separable.cuh"

namespace {

/* Pass 1: makes the middle. */
template <class In> __global__ void filter_rows(const __grid_constant__ parameters a) {
  const gconv_problem &problem = a.problem;
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, rank = problem.structure.rank;
  const int64_t q = i / problem.channels, left = q * problem.stride_x - problem.pad_left;
  const int64_t top = a.band * problem.stride_y - problem.pad_top;
  if (i >= a.samples)
    return;
  for (int64_t pair = blockIdx.z; pair < problem.filters * rank; pair += gridDim.z) {
    const int64_t k = pair / rank;
    const float *taps = a.factors + (k * rank * problem.rows) + rank * problem.rows + pair * problem.columns;
    for (int64_t y = blockIdx.y; y < a.rows; y += gridDim.y) {
      float sum = 0.0f;
      for (int64_t s = 0; s < problem.columns; s++)
        sum = fmaf(
            taps[s],
            sample_at<In>(problem, a.in, a.in_row, top + y, left + s * problem.dilation_x, (int)(i - q * problem.channels)),
            sum);
      a.middle[(pair * a.rows + y) * a.samples + i] = sum;
    }
  }
}

/* Returns the sum of filter k; `column` is the sample of the middle under the first tap, of the filter's first pair. */
DEVICE float filter_column(const parameters &a, const float *column, int32_t k) {
  const gconv_problem &problem = a.problem;
  const int64_t rank = problem.structure.rank;
  const float *tap = a.factors + k * rank * (problem.rows + problem.columns);
  float sum = 0.0f;
  for (int64_t pair = 0; pair < rank; pair++)
    for (int64_t r = 0; r < problem.rows; r++)
      sum = fmaf(*tap++, column[((k * rank + pair) * a.rows + r * problem.dilation_y) * a.samples], sum);
  return sum;
}

/* Pass 2: makes the outputs. */
template <class In, class Out> __global__ void filter_columns(const __grid_constant__ parameters a) {
  const gconv_problem &problem = a.problem;
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, q = i / problem.channels;
  if (i >= a.samples)
    return;
  for (int64_t p = blockIdx.y; p < a.band_rows; p += gridDim.y) {
    const place at = {a.band + p, q, (int32_t)(i - q * problem.channels), a.in};
    store_sample<In, Out>(a, a.weights, at, a.out + at.p * a.out_row + q * a.out_pixel,
                          [&](int32_t k) { return filter_column(a, a.middle + p * problem.stride_y * a.samples + i, k); });
  }
}

/* ---- The host ---- */

middle_shape middle_of(const gconv_problem *problem) {
  return {(int64_t)problem->out_width * problem->channels, (int64_t)(problem->rows - 1) * problem->dilation_y + 1,
          problem->stride_y, middles_of(problem)};
}

size_t workspace_bytes(const gconv_problem *problem) {
  return middle_bytes(problem, middle_of(problem));
}

gconv_status execute(const gconv_execution *execution) {
  return launch_by_types(execution->problem, [&](auto in, auto out) {
    launch_passes(execution, middle_of(execution->problem), filter_rows<decltype(in)>,
                  filter_columns<decltype(in), decltype(out)>);
  });
}

double error_bound(const gconv_problem *problem) {
  const gconv_structure *structure = &problem->structure;
  return structure->residual +
         structure->growth * gconv_rounding_bound((double)problem->columns + (double)structure->rank * problem->rows + 4);
}

const char *supports(const gconv_problem *problem) {
  const char *obstacle = gconv_factor_obstacle(problem);
  if (obstacle)
    return obstacle;
  if (error_bound(problem) > 1e-3)
    return "its columns and rows would lose too many digits";
  return band_obstacle(problem, middle_of(problem));
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return passes_ms(problem, machine, 25.0 * problem->columns * problem->stride_y + 4.0 * problem->rows);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_separable_classic = {
    .info = {"separable-classic", "cuda", "rows, then columns, in two passes over memory: to learn from", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = gconv_factor_floats,
    .prepare = gconv_factor_filters,
    .classic = true,
};
