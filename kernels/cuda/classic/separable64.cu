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
 * one outside of it. Pass 2: a thread makes one output, from S samples of a row of the middle, which the border continues as
 * it would continue the image. So the middle of an output row is as wide as the image, however large the filter is.
 *
 * A filter of rank 2 has two such middles, and so on (kernels/factor.h). Each direction is rounded to float32 once.
 */
#include "classic.cuh"
#include "kernels/factor.h"

namespace {

enum { THREADS = 256 };

/* The middle of a band: rows `band` .. band + band_rows - 1 of the output, of one plane. */
struct parameters : arguments {
  const float *weights, *factors; /* of each filter: rank columns of R taps, then rank rows of S taps */
  float *middle;                  /* K x rank x band_rows x middle_samples */
  int64_t samples;                /* of an output row, of all channels */
  int64_t middle_samples;         /* of a row of the middle */
  int64_t band, band_rows;
};

/* Pass 1. Grid: x counts samples of a row of the middle, y its rows, z pairs of all filters. */
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

/* The sum of filter k for output row j of the band, column q and channel c. */
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

/* Pass 2. Grid: x counts samples of a row, y output rows. */
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

int64_t samples_of_middle(const gconv_problem *problem) {
  return ((int64_t)problem->width + 1) * problem->channels;
}

/* Output rows of a band whose middle fits into the workspace; 0 if not even one does. */
int64_t band_of(const gconv_problem *problem) {
  const int64_t row = samples_of_middle(problem) * problem->filters * problem->structure.rank * (int64_t)sizeof(float);
  const int64_t free = (int64_t)problem->workspace_limit - (int64_t)(gconv_factor_floats(problem) * sizeof(float));
  if (row == 0)
    return problem->out_height; /* all taps are 0 */
  const int64_t band = free < 0 ? 0 : free / row;
  return band < problem->out_height ? band : problem->out_height;
}

size_t workspace_bytes(const gconv_problem *problem) {
  return (size_t)(band_of(problem) * samples_of_middle(problem) * problem->filters * problem->structure.rank) *
         sizeof(float);
}

template <class In, class Out> void launch_band(const parameters &a, cudaStream_t stream) {
  const unsigned rows = blocks_for(a.band_rows, 1, 65535);
  const int64_t pairs = (int64_t)a.problem.filters * a.problem.structure.rank;
  if (pairs > 0)
    filter_columns<In>
        <<<dim3(blocks_for(a.middle_samples, THREADS, INT32_MAX), rows, blocks_for(pairs, 1, 65535)), THREADS, 0, stream>>>(
            a);
  filter_rows<In, Out><<<dim3(blocks_for(a.samples, THREADS, INT32_MAX), rows), THREADS, 0, stream>>>(a);
}

/* The planes one after the other, and each in bands from top to bottom. */
template <class In, class Out> void launch(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const arguments all = common_arguments(execution);
  parameters a = {all,
                  execution->weights,
                  gconv_prepared(problem, execution->weights),
                  (float *)execution->workspace,
                  (int64_t)problem->out_width * problem->channels,
                  samples_of_middle(problem)};
  const int64_t step = band_of(problem);
  for (int64_t z = 0; z < (int64_t)problem->images * problem->planes; z++) {
    const int64_t image = z / problem->planes, plane = z % problem->planes;
    a.in = all.in + image * all.in_image + plane * all.in_plane;
    a.out = all.out + image * all.out_image + plane * all.out_plane;
    for (a.band = 0; a.band < problem->out_height; a.band += step) {
      a.band_rows = problem->out_height - a.band < step ? problem->out_height - a.band : step;
      launch_band<In, Out>(a, (cudaStream_t)execution->stream);
    }
  }
}

gconv_status execute(const gconv_execution *execution) {
  return launch_by_types(execution->problem, [&](auto in, auto out) { launch<decltype(in), decltype(out)>(execution); });
}

double error_bound(const gconv_problem *problem) {
  return problem->structure.residual + problem->structure.growth * gconv_rounding_bound(2 + 4);
}

const char *supports(const gconv_problem *problem) {
  const char *obstacle = gconv_factor_obstacle(problem);
  return obstacle ? obstacle : band_of(problem) == 0 ? "the middle of one output row would exceed the workspace" : NULL;
}

/* As separable-classic, whose taps cost 25 and 4. Here both passes check borders, and sums are float64. */
double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double taps = 30.0 * (double)problem->structure.rank * ((double)problem->columns + problem->rows);
  return 2 * machine->launch_ms + classic_ms(problem, machine, taps + 100);
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
