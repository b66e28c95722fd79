/* SPDX-License-Identifier: MIT */
/*
 * sparse: only the taps that are not 0.
 *
 * Motion blur is a line of taps in a square of zeros, the rim of a ring likewise, and a filter with holes (a-trous) has a
 * fraction of the taps of its frame. Each filter becomes a list of taps with their places, which is laid on one output row
 * after the other. The arithmetic: 2 flop a sample and tap that counts, but a vector load for each multiply-add, where
 * direct shares a load among up to 6 rows: it wins where fewer than about half of the taps count.
 *
 * The bits are those of the exact family: a tap of 0 would add 0 * x, which is +0 or -0 as long as x is finite, and changes
 * no sum but that of -0 (from underflow), to +0; the offset of the epilogue, which is never -0, makes the two equal. Where
 * the rows of a band hold an infinity or a NaN, which zeros do not pass over, all taps are laid on it.
 */
#include "tile.h"

enum { RING_BYTES = 384 << 10 };

static gconv_layout layout_of(const gconv_problem *problem) {
  return gconv_layout_of(problem, GCONV_TILE_ROWS, RING_BYTES);
}

/* The taps that count: K numbers of them, then all taps, then the row of each, then the column. */
static size_t prepared_floats(const gconv_problem *problem) {
  return (size_t)problem->filters + 3 * (size_t)problem->structure.nonzero_taps;
}

static gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  size_t all = (size_t)problem->structure.nonzero_taps;
  float *values = prepared + problem->filters, *rows = values + all, *columns = rows + all;
  size_t t = 0;
  for (int32_t k = 0; k < problem->filters; k++) {
    size_t before = t;
    for (int32_t r = 0; r < problem->rows; r++)
      for (int32_t s = 0; s < problem->columns; s++, taps++)
        if (*taps != 0) {
          values[t] = *taps;
          rows[t] = (float)r;
          columns[t++] = (float)s;
        }
    prepared[k] = (float)(t - before);
  }
  return GCONV_OK;
}

/* Output row j of the band. */
static void lay_row(const gconv_window *window, int32_t j) {
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

static void lay(const gconv_window *window) {
  for (int32_t j = 0; j < window->count; j++)
    if (window->finite)
      lay_row(window, j);
    else
      gconv_tile_one_row(window, j, window->extra);
}

static size_t workspace_bytes(const gconv_problem *problem) {
  gconv_layout layout = layout_of(problem);
  return gconv_window_bytes(problem, &layout, (size_t)problem->rows * (size_t)problem->columns * sizeof(float *));
}

static gconv_status execute(const gconv_execution *execution) {
  gconv_layout layout = layout_of(execution->problem);
  gconv_walk(execution, &layout, true, lay);
  return GCONV_OK;
}

static const char *supports(const gconv_problem *problem) {
  if (!isfinite(problem->border_level))
    return "the constant border is infinite";
  if (problem->rows > 1 << 24 || problem->columns > 1 << 24 || problem->structure.nonzero_taps > 1 << 24)
    return "places of taps would not fit in float32";
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return gconv_tile_ms(problem, machine, 0, (double)problem->structure.nonzero_taps / problem->filters);
}

const gconv_algorithm gconv_algorithm_cpu_sparse = {
    .info = {.name = "sparse",
             .device = "cpu",
             .help = "only the taps that are not 0, one row after the other",
             .exact = true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};
