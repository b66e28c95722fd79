/* SPDX-License-Identifier: MIT */
/*
 * What separable-classic and separable64 share: two passes over memory. The first makes the middle, samples that are
 * filtered in one direction; the second makes outputs from the middle. A filter of rank n is the sum of n pairs of a column
 * and a row (kernels/factor.h), and has a middle for each pair. The planes are processed one after the other, and each in
 * bands from top to bottom, whose middle fits into the workspace.
 */
#pragma once

#include "classic.cuh"
#include "kernels/factor.h"

namespace {

enum { THREADS = 256 };

struct parameters : arguments {
  const float *weights, *factors; /* weights and factors of each filter: rank columns of R taps, then rank rows of S taps */
  float *middle;                  /* K x rank x rows x middle_samples */
  int64_t samples;                /* samples of an output row, of all channels */
  int64_t middle_samples, rows;   /* samples of a row of the middle; rows of the middle */
  int64_t band, band_rows;        /* the first output row, and the number of output rows */
};

typedef void pass(const parameters a);

/* The middle of a plane. */
struct middle_shape {
  int64_t samples;     /* samples of a row */
  int64_t reach, step; /* rows that one output row needs; further rows for each further output row */
  int64_t count;       /* middles: one for each pair of a column and a row */
};

inline int64_t middle_rows(const middle_shape &middle, int64_t band) {
  return (band - 1) * middle.step + middle.reach;
}

inline int64_t middles_of(const gconv_problem *problem) {
  return (int64_t)problem->filters * problem->structure.rank;
}

/* Returns how many output rows a band has, so that its middle fits into the workspace; 0 if not even one row fits. */
inline int64_t band_of(const gconv_problem *problem, const middle_shape &middle) {
  const int64_t row = middle.samples * middle.count * (int64_t)sizeof(float);
  const int64_t factors = middle.count * ((int64_t)problem->rows + problem->columns) * (int64_t)sizeof(float);
  const int64_t free = (int64_t)problem->workspace_limit - factors;
  if (row == 0)
    return problem->out_height; /* all taps are 0 */
  const int64_t rows = free / row - middle.reach, band = rows < 0 ? 0 : rows / middle.step + 1;
  return band < problem->out_height ? band : problem->out_height;
}

inline size_t middle_bytes(const gconv_problem *problem, const middle_shape &middle) {
  return (size_t)(middle_rows(middle, band_of(problem, middle)) * middle.samples * middle.count) * sizeof(float);
}

inline const char *band_obstacle(const gconv_problem *problem, const middle_shape &middle) {
  return band_of(problem, middle) == 0 ? "the middle of one output row would exceed the workspace" : NULL;
}

/* Grids: x counts samples of a row, y rows of the middle or output rows, z of the first pass pairs of all filters. */
inline void launch_band(const parameters &a, pass *first, pass *second, cudaStream_t stream) {
  const int64_t middles = middles_of(&a.problem);
  const dim3 grid(blocks_for(a.middle_samples, THREADS, INT32_MAX), blocks_for(a.rows, 1, 65535));
  if (middles > 0)
    first<<<dim3(grid.x, grid.y, blocks_for(middles, 1, 65535)), THREADS, 0, stream>>>(a);
  second<<<dim3(blocks_for(a.samples, THREADS, INT32_MAX), blocks_for(a.band_rows, 1, 65535)), THREADS, 0, stream>>>(a);
}

/* Calls make(parameters) for each band of each plane. */
template <class Make> void each_band(const gconv_execution *execution, const middle_shape &middle, const Make &make) {
  const gconv_problem *problem = execution->problem;
  const arguments all = common_arguments(execution);
  const int64_t step = band_of(problem, middle);
  parameters a = {all,
                  execution->weights,
                  gconv_prepared(problem, execution->weights),
                  (float *)execution->workspace,
                  (int64_t)problem->out_width * problem->channels,
                  middle.samples};
  for (int64_t z = 0; z < (int64_t)problem->images * problem->planes; z++) {
    const int64_t image = z / problem->planes, plane = z % problem->planes;
    a.in = all.in + image * all.in_image + plane * all.in_plane;
    a.out = all.out + image * all.out_image + plane * all.out_plane;
    for (a.band = 0; a.band < problem->out_height; a.band += step) {
      a.band_rows = problem->out_height - a.band < step ? problem->out_height - a.band : step;
      a.rows = middle_rows(middle, a.band_rows);
      make(a);
    }
  }
}

inline void launch_passes(const gconv_execution *execution, const middle_shape &middle, pass *first, pass *second) {
  each_band(execution, middle, [&](const parameters &a) { launch_band(a, first, second, (cudaStream_t)execution->stream); });
}

/* Estimates both passes. taps: the instructions for the taps of both passes, for an output. */
inline double passes_ms(const gconv_problem *problem, const gconv_machine *machine, double taps) {
  return 2 * machine->launch_ms + classic_ms(problem, machine, (double)problem->structure.rank * taps + 100);
}

} // namespace
