/* SPDX-License-Identifier: MIT */
/*
 * sparse: only the taps that are not 0.
 *
 * Some filters are mostly zeros: a motion blur is a line of taps in a square of zeros, a ring has taps on its rim alone, and
 * a filter with holes (a-trous) has taps on a fraction of its frame. Each filter becomes a list of taps with their places.
 * The list is applied to one output row after the other. It takes 2 flop for each sample and tap that is not 0, but also a
 * vector load for each multiply-add, while direct shares a load among up to 6 rows. So sparse is the fastest if more than
 * about half of the taps are 0.
 *
 * The results have the bits of the exact family. A tap of 0 would add 0 * x, which is +0 or -0 if x is finite. That changes
 * only a sum of -0 (after an underflow), which would become +0. The epilogue then makes both equal, as its offset is never
 * -0. If the rows of a band hold an infinity or a NaN, 0 * x is not 0. Such bands use all taps.
 */
#include "kernels/sparse.h"
#include "tile.h"

static void make_row(const gconv_window *window, int32_t j) {
  const gconv_problem *problem = window->execution->problem;
  size_t all = (size_t)problem->structure.nonzero_taps;
  const float *counts = gconv_prepared(problem, window->execution->weights);
  const float *taps = counts + problem->filters, *r = taps + all, *s = r + all;
  const float *const *rows = window->rows + (int64_t)j * window->layout.step;
  const float **sources = window->extra;
  for (size_t k = 0; k < (size_t)problem->filters; k++) {
    size_t count = (size_t)counts[k];
    for (size_t t = 0; t < count; t++)
      sources[t] = rows[(size_t)r[t]] + window->offsets[(size_t)s[t]] + window->first;
    gconv_tile_list(sources, taps, count, window->samples, gconv_window_sums(window, k, j));
    taps += count;
    r += count;
    s += count;
  }
}

static void make_piece(const gconv_window *window) {
  for (int32_t j = 0; j < window->count; j++)
    if (window->finite)
      make_row(window, j);
    else
      gconv_tile_one_row(window, j, window->extra);
}

static size_t workspace_bytes(const gconv_problem *problem) {
  gconv_layout layout = gconv_tile_layout(problem);
  return gconv_window_bytes(problem, &layout, (size_t)problem->rows * (size_t)problem->columns * sizeof(float *));
}

static gconv_status execute(const gconv_execution *execution) {
  return gconv_tile_walk(execution, true, make_piece);
}

static const char *supports(const gconv_problem *problem) {
  if (!isfinite(problem->border_level))
    return "the constant border is infinite";
  if (problem->rows > 1 << 24 || problem->columns > 1 << 24 || problem->structure.nonzero_taps > 1 << 24)
    return "places of taps would not fit in float32";
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

/* Lists are limited by loads, so they do not overlap with moving samples from memory (measured: 16 threads of a Xeon). */
static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return gconv_tile_ms(problem, machine, 0, (double)problem->structure.nonzero_taps / problem->filters) +
         gconv_moving_ms(problem, machine);
}

const gconv_algorithm gconv_algorithm_cpu_sparse = {
    .info = {"sparse", "cpu", "only the taps that are not 0, one row after the other", true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .prepared_floats = gconv_sparse_floats,
    .prepare = gconv_sparse_prepare,
};
