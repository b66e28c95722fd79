/* SPDX-License-Identifier: MIT */
/* The innermost loops of the CPU's algorithms. Sums stay in registers while taps are added to them, in vector code for this
 * processor. Every sum is sum = fmaf(tap, x, sum) over the taps in the given order, from +0. So all loops have the bits of
 * the exact family on every processor. The exception is gconv_tile_along(), whose order and rounding depend on the
 * processor. */
#pragma once

#include "kernels/cpu/window.h"

/* The rows that gconv_tile_rows() makes at once; and the unit of samples for all loops. If `samples` is no multiple of the
 * unit, it is rounded up, and so many floats are written, and read from every source. */
enum { GCONV_TILE_ROWS = 6, GCONV_TILE_SAMPLES = 64 };

/* sums[i * stride + x] = sum over r, s of taps[s * R + r] * rows[i + r][offsets[s] + first + x], for all i <
 * GCONV_TILE_ROWS, x < samples. Taps are added by rows: all s of r = 0 first. Note that they are stored by columns. */
void gconv_tile_rows(const float *const *rows, size_t first, const int64_t *offsets, const float *taps, int32_t R, int32_t S,
                     size_t samples, float *sums, size_t stride);

/* Rows of samples of a type, under a column of R taps: R + GCONV_TILE_ROWS - 1 for so many rows of sums, or R for one. */
typedef struct gconv_tile_column {
  gconv_type type;
  const void *const *rows;
  int32_t R, count; /* rows of sums: GCONV_TILE_ROWS or 1 */
} gconv_tile_column;

/* sums[i * stride + x] = sum over r of taps[r] * rows[i + r][first + x], for all i < count, x < samples. */
void gconv_tile_columns(const gconv_tile_column *columns, size_t first, const float *taps, size_t samples, float *sums,
                        size_t stride);

/* sums[x] = sum over t of taps[t] * sources[t][x], for all x < samples. */
void gconv_tile_list(const float *const *sources, const float *taps, size_t count, size_t samples, float *sums);

/* Taps along rows: line i has taps[i * length ..]; the samples of its taps are `distance` apart. */
typedef struct gconv_tile_lines {
  const float *const *sources;
  const float *taps;
  size_t count, length, distance;
} gconv_tile_lines;

/* sums[x] = sum over i, s of taps[i * length + s] * sources[i][x + s * distance], for all x < samples. The order depends on
 * the length of the processor's vectors, and the plain target uses no fmaf(); so this is not of the exact family. Returns
 * false and writes nothing if gconv_tile_list() is as fast, because no two taps of a line are whole vectors apart; or if the
 * distance is neither a power of two that divides a vector's length, nor three times such a power. */
bool gconv_tile_along(const gconv_tile_lines *lines, size_t samples, float *sums);

/* The same for one line, whose sums are rounded to levels of u8 or u16 as gconv_to_level() does; samples need not be a
 * multiple of the unit. Returns false and writes nothing for lengths, distances and processors without such a loop. */
bool gconv_tile_levels(const gconv_tile_lines *line, gconv_type type, size_t samples, void *levels);

/* Makes output row j of the window's band with all taps of all filters, if the row cannot be part of a tile. `sources` has
 * room for R x S pointers. */
void gconv_tile_one_row(const gconv_window *window, int32_t j, const float **sources);

/* The layout of the window of direct, separable and sparse: bands of GCONV_TILE_ROWS rows, and a ring that takes 384 KiB of
 * an L2 cache of 1 MiB; the image passes through the rest. */
gconv_layout gconv_tile_layout(const gconv_problem *problem);

/* Executes such an algorithm, with make_piece(); see gconv_walk(). */
gconv_status gconv_tile_walk(const gconv_execution *execution, bool check_finite, gconv_make_piece *make_piece);

/* Returns where the sums of filter k, output row j of the window's band begin. */
static inline float *gconv_window_sums(const gconv_window *window, size_t k, int32_t j) {
  return window->sums + (k * (size_t)window->layout.band + (size_t)j) * window->layout.piece;
}

/* ---- For cost() ---- */

/* The choice of `auto` must not depend on the processor, nor on the number of processors. So each cost() is the time of one
 * thread of a reference CPU, whose peak is this many multiply-adds a millisecond. A machine that gconv tune has measured is
 * assumed to be faster by the ratio of its peak to this one. */
enum { GCONV_REFERENCE_FMA_PER_MS = 55 * 1000 * 1000 };

/* How much longer work of so many equal turns takes than if threads could share it evenly: the geometric mean of one thread,
 * which always can, and of four. */
double gconv_unevenness(double turns);

/* Milliseconds to move input and output to and from the memory of `machine`. */
double gconv_moving_ms(const gconv_problem *problem, const gconv_machine *machine);

/* The milliseconds on `machine` of what takes one thread of the reference CPU `thread_ms`, and is cut into so many equal
 * turns; never less than moving input and output takes. */
double gconv_cpu_ms(const gconv_problem *problem, const gconv_machine *machine, double thread_ms, double turns);

/* The same for a problem whose filters take so many taps a sample in tiles and in lists. */
double gconv_tile_ms(const gconv_problem *problem, const gconv_machine *machine, double tile_taps, double list_taps);
