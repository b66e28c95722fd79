/* SPDX-License-Identifier: MIT */
/*
 * separable: filters that are sums of few columns times rows.
 *
 * A filter of rank r is the sum of r outer products (factor.h). So it takes r passes of R taps down the columns and one
 * pass of r * S taps along the rows: r * (R + S) multiply-adds a sample instead of R * S. Both directions are done band by
 * band, so the 6 rows between them stay in L2.
 *
 * Columns come first, because there a tile shares its loads among 6 rows (tile.c). Along the rows, a load serves the taps
 * whose samples are whole vectors apart (tile.c). All pairs are added in one chain.
 *
 * separable is not of the exact family, because the order of additions differs. With a chain of R and one of r * S
 * roundings, the error of a response is at most residual + growth * gamma(R + r * S), relative to (sum |tap|) * max |x|.
 * Integer filters with integer factors (Sobel, binomials, boxes) still give exact sums of integer samples, if these stay
 * below 2^24.
 *
 * Long filters, and those whose chains would be off by more than half a level of the result, go by separable_long.c.
 */
#include "base/memory.h"
#include "kernels/cpu/separable_long.h"
#include "kernels/factor.h"
#include "tile.h"

/* Floats of the factors of one filter: its columns, then its rows, in the order of gconv_factor_filters(). */
static size_t filter_floats(const gconv_problem *problem) {
  return gconv_factor_floats(problem) / (size_t)problem->filters;
}

/* ---- The two directions ---- */

/* Floats between the two directions. They have the layout of the ring: row (k * rank + i) * band + j holds pair i of filter
 * k, output row j. Pointers to the sources of a list follow. */
static size_t middle_floats(const gconv_problem *problem, const gconv_layout *layout) {
  return (size_t)problem->filters * (size_t)problem->structure.rank * (size_t)layout->band * layout->row;
}

static size_t list_length(const gconv_problem *problem) {
  size_t along = (size_t)problem->structure.rank * (size_t)problem->columns, down = (size_t)problem->rows;
  return along > down ? along : down;
}

/* Applies one column of taps down the rows of one phase of the block. `to` is the middle row of output row 0. */
static void add_column(const gconv_window *window, const float *column, size_t phase, float *to) {
  const gconv_problem *problem = window->execution->problem;
  const gconv_layout *layout = &window->layout;
  size_t samples = window->width + gconv_window_halo(problem), first = phase * layout->phase;
  const int64_t no_shift = 0;
  if (window->count == GCONV_TILE_ROWS) {
    gconv_tile_rows(window->rows, first, &no_shift, column, problem->rows, 1, samples, to + first, layout->row);
    return;
  }
  const float **sources = (const float **)(void *)((float *)window->extra + middle_floats(problem, layout));
  for (int32_t j = 0; j < window->count; j++) {
    for (int32_t r = 0; r < problem->rows; r++)
      sources[r] = window->rows[(int64_t)j * layout->step + r] + first;
    gconv_tile_list(sources, column, (size_t)problem->rows, samples, to + (size_t)j * layout->row + first);
  }
}

/* Applies all pairs of filter k along output row j, for the piece. */
static void add_row(const gconv_window *window, size_t k, int32_t j) {
  const gconv_problem *problem = window->execution->problem;
  const gconv_layout *layout = &window->layout;
  size_t rank = (size_t)problem->structure.rank, t = 0;
  const float *middle = window->extra;
  const float **sources = (const float **)(void *)((float *)window->extra + middle_floats(problem, layout));
  const float *rows =
      gconv_prepared(problem, window->execution->weights) + k * filter_floats(problem) + rank * (size_t)problem->rows;
  for (size_t i = 0; i < rank; i++)
    sources[i] = middle + ((k * rank + i) * (size_t)layout->band + (size_t)j) * layout->row + window->first;
  gconv_tile_lines lines = {.sources = sources,
                            .taps = rows,
                            .count = rank,
                            .length = (size_t)problem->columns,
                            .distance = (size_t)problem->dilation_x * (size_t)problem->channels};
  if (problem->stride_x == 1 && gconv_tile_along(&lines, window->samples, gconv_window_sums(window, k, j)))
    return;
  for (size_t i = 0; i < rank; i++)
    for (int32_t s = 0; s < problem->columns; s++)
      sources[t++] =
          middle + ((k * rank + i) * (size_t)layout->band + (size_t)j) * layout->row + window->offsets[s] + window->first;
  gconv_tile_list(sources, rows, t, window->samples, gconv_window_sums(window, k, j));
}

static void make_piece(const gconv_window *window) {
  const gconv_problem *problem = window->execution->problem;
  const gconv_layout *layout = &window->layout;
  size_t rank = (size_t)problem->structure.rank;
  float *middle = window->extra;
  for (size_t k = 0; k < (size_t)problem->filters; k++) {
    const float *columns = gconv_prepared(problem, window->execution->weights) + k * filter_floats(problem);
    for (size_t i = 0; i < rank && window->first == 0; i++) /* for the whole block */
      for (size_t phase = 0; phase < layout->phases; phase++)
        add_column(window, columns + i * (size_t)problem->rows, phase,
                   middle + (k * rank + i) * (size_t)layout->band * layout->row);
    for (int32_t j = 0; j < window->count; j++)
      add_row(window, k, j);
  }
}

/* ---- The descriptor ---- */

static size_t workspace_bytes(const gconv_problem *problem) {
  if (gconv_separable_is_long(problem))
    return gconv_separable_long_workspace(problem);
  gconv_layout layout = gconv_tile_layout(problem);
  size_t middle = gconv_product(5, (size_t[]){(size_t)problem->filters, (size_t)problem->structure.rank, (size_t)layout.band,
                                              layout.row, sizeof(float)});
  if (middle > SIZE_MAX / 16)
    return SIZE_MAX;
  return gconv_window_bytes(problem, &layout, middle + list_length(problem) * sizeof(float *));
}

static gconv_status execute(const gconv_execution *execution) {
  if (!gconv_separable_is_long(execution->problem))
    return gconv_tile_walk(execution, false, make_piece);
  gconv_separable_long(execution);
  return GCONV_OK;
}

static double error_bound(const gconv_problem *problem) {
  if (gconv_separable_is_long(problem))
    return gconv_separable_long_bound(problem);
  return gconv_separable_bound(problem, (double)problem->rows + (double)problem->structure.rank * problem->columns);
}

static const char *supports(const gconv_problem *problem) {
  const char *obstacle = gconv_factor_obstacle(problem);
  if (obstacle)
    return obstacle;
  if (error_bound(problem) > 1e-3)
    return "its columns and rows would lose too many digits";
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

/* The rows between the directions take as long as a few taps. If rows are long, their taps share loads. */
static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  const double between = 4, shared = problem->columns > 16 ? 0.7 : 1;
  double rank = problem->structure.rank, down = rank * (problem->rows + between), along = rank * problem->columns * shared;
  bool tiles = gconv_tile_layout(problem).band == GCONV_TILE_ROWS;
  return gconv_tile_ms(problem, machine, tiles ? down : 0, tiles ? along : along + down);
}

const gconv_algorithm gconv_algorithm_cpu_separable = {
    .info = {"separable", "cpu", "few columns times rows, for filters of low rank", false},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .prepared_floats = gconv_factor_floats,
    .prepare = gconv_factor_filters,
};
