/* SPDX-License-Identifier: MIT */
/*
 * direct: adds the taps one after the other, to tiles of sums in registers.
 *
 * A row of an interleaved image has W * C samples, and the same channel of the next pixel is C samples further on. So all
 * channels are convolved at once, without splitting the image into planes. Input rows are converted to float32 once, with
 * their borders (window.h). The sums of 6 output rows are made together, so an input vector is loaded once for up to 6 of
 * them (tile.c). All other work is fused multiply-adds: 2 * R * S flop a sample, at 90 to 99% of what the processor can do
 * from 5 x 5 on. For 3 x 3, conversions and the epilogue take about as long as the taps.
 *
 * The additions of each sample have the order of the definition (r, then s), so the bits are those of the exact family.
 *
 * On processors that multiply bytes fast, digits.c computes filters of one row or column, and small filters, from bytes to
 * bytes. Its results have the same bits.
 */
#include "kernels/cpu/digits.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/window.h"
#include "tile.h"

static size_t tap_plane(const gconv_problem *problem) {
  return (size_t)problem->rows * (size_t)problem->columns;
}

/* Returns the floats of all taps in the order of columns, in which tiles read them. The floats of digits.c follow. */
static size_t tap_floats(const gconv_problem *problem) {
  return gconv_round_up((size_t)gconv_tap_count(problem), 16);
}

static size_t prepared_floats(const gconv_problem *problem) {
  return tap_floats(problem) + (gconv_digits_fit(problem) ? gconv_digits_floats(problem) : 0);
}

static gconv_status prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  size_t R = (size_t)problem->rows, S = (size_t)problem->columns;
  for (size_t k = 0; k < (size_t)problem->filters; k++)
    for (size_t r = 0; r < R; r++)
      for (size_t s = 0; s < S; s++)
        prepared[(k * S + s) * R + r] = taps[(k * R + r) * S + s];
  if (gconv_digits_fit(problem))
    gconv_digits_prepare(problem, taps, prepared + tap_floats(problem));
  return GCONV_OK;
}

static void make_piece(const gconv_window *window) {
  const gconv_problem *problem = window->execution->problem;
  if (window->count < GCONV_TILE_ROWS) {
    for (int32_t j = 0; j < window->count; j++)
      gconv_tile_one_row(window, j, window->extra);
    return;
  }
  const float *taps = gconv_prepared(problem, window->execution->weights);
  for (size_t k = 0; k < (size_t)problem->filters; k++)
    gconv_tile_rows(window->rows, window->first, window->offsets, taps + k * tap_plane(problem), problem->rows,
                    problem->columns, window->samples, gconv_window_sums(window, k, 0), window->layout.piece);
}

static size_t workspace_bytes(const gconv_problem *problem) {
  gconv_layout layout = gconv_tile_layout(problem);
  const size_t tiles = gconv_window_bytes(problem, &layout, tap_plane(problem) * sizeof(float *));
  const size_t digits = gconv_digits_fit(problem) ? gconv_digits_workspace(problem) : 0;
  return tiles > digits ? tiles : digits;
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  if (gconv_digits_fit(problem) &&
      gconv_digits_execute(execution, gconv_prepared(problem, execution->weights) + tap_floats(problem)))
    return GCONV_OK;
  return gconv_tile_walk(execution, false, make_piece);
}

static const char *supports(const gconv_problem *problem) {
  return workspace_bytes(problem) > ((size_t)1 << 31) ? "its rows would exceed 2 GiB a thread" : NULL;
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  bool tiles = gconv_tile_layout(problem).band == GCONV_TILE_ROWS;
  double taps = (double)tap_plane(problem);
  return gconv_tile_ms(problem, machine, tiles ? taps : 0, tiles ? 0 : taps);
}

const gconv_algorithm gconv_algorithm_cpu_direct = {
    .info = {"direct", "cpu", "all taps on tiles of sums in registers", true},
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};
