/* SPDX-License-Identifier: MIT */
/* The innermost loops of the CPU's algorithms. Sums stay in registers while taps are added to them, in vector code for this
 * processor. Every sum is sum = fmaf(tap, x, sum) over the taps in the given order, from +0. So all loops have the bits of
 * the exact family on every processor. Only gconv_tile_along() differs: its order and rounding depend on the processor. */
#pragma once

#include "kernels/cpu/window.h"

/* gconv_tile_rows() computes GCONV_TILE_ROWS rows at once. All loops round `samples` up to a multiple of GCONV_TILE_SAMPLES:
 * so many floats are written, and read from every source. */
enum { GCONV_TILE_ROWS = 6, GCONV_TILE_SAMPLES = 64 };

/* Sets sums[i * stride + x] = sum over r, s of taps[s * R + r] * rows[i + r][offsets[s] + first + x], for all i <
 * GCONV_TILE_ROWS, x < samples. Taps are added by rows: all s of r = 0 first. Note that they are stored by columns. */
void gconv_tile_rows(const float *const *rows, size_t first, const int64_t *offsets, const float *taps, int32_t R, int32_t S,
                     size_t samples, float *sums, size_t stride);

/* Rows of samples of a type, under a column of R taps: R + count - 1 rows. */
typedef struct gconv_tile_column {
  gconv_type type;
  const void *const *rows;
  int32_t R, count; /* rows of sums: GCONV_TILE_ROWS or 1 */
} gconv_tile_column;

/* Sets sums[i * stride + x] = sum over r of taps[r] * rows[i + r][first + x], for all i < count, x < samples. */
void gconv_tile_columns(const gconv_tile_column *columns, size_t first, const float *taps, size_t samples, float *sums,
                        size_t stride);

/* Sets sums[x] = sum over t of taps[t] * sources[t][x], for all x < samples. */
void gconv_tile_list(const float *const *sources, const float *taps, size_t count, size_t samples, float *sums);

/* Taps along `count` rows: line i has the taps taps[i * length ..]. Their samples are `distance` apart, from sources[i]
 * on. */
typedef struct gconv_tile_lines {
  const float *const *sources;
  const float *taps;
  size_t count, length, distance;
} gconv_tile_lines;

/* Sets sample x of `to` to the sum over i, s of taps[i * length + s] * sources[i][x + s * distance], for all x < samples. If
 * `type` is f32, these are floats, rounded up as above. If it is u8 or u16, they are rounded to levels as gconv_to_level()
 * does; no sum may reach 2^31 or be NaN. The order of taps depends on the length of the processor's vectors, and plain C
 * uses no fmaf(). So this is not of the exact family. Returns false and writes nothing in three cases. First, no two taps of
 * a line are whole vectors apart; then gconv_tile_list() is as fast. Second, the distance is neither a power of two that
 * divides a vector's length, nor three times such a power. Third, `type` is not f32, and the processor has no AVX-512. */
bool gconv_tile_along(const gconv_tile_lines *lines, gconv_type type, size_t samples, void *to);

/* Computes output row j of the window's band with all taps of all filters, for rows that are part of no tile. `sources` has
 * room for R x S pointers. */
void gconv_tile_one_row(const gconv_window *window, int32_t j, const float **sources);

/* Returns the layout of the window for direct, direct64 and sparse: bands of GCONV_TILE_ROWS rows, and a ring that takes 384
 * KiB of an L2 cache of 1 MiB. The rest is for the image. */
gconv_layout gconv_tile_layout(const gconv_problem *problem);

/* Executes an algorithm with this layout, by make_piece(); see gconv_walk(). */
gconv_status gconv_tile_walk(const gconv_execution *execution, bool check_finite, gconv_make_piece *make_piece);

/* Returns where the sums of filter k, output row j of the window's band begin. */
static inline float *gconv_window_sums(const gconv_window *window, size_t k, int32_t j) {
  return window->sums + (k * (size_t)window->layout.band + (size_t)j) * window->layout.piece;
}

/* ---- For cost() ---- */

/* The choice of `auto` must not depend on the processor, nor on the number of processors. So each cost() is the time of one
 * thread of a reference CPU, whose peak is this many multiply-adds a millisecond. A machine that gconv tune has measured is
 * assumed to be faster by the ratio of its peak to this peak. */
enum { GCONV_REFERENCE_FMA_PER_MS = 55 * 1000 * 1000 };

/* Returns the factor by which `turns` equal turns take longer because threads cannot share them evenly: the geometric mean
 * of the factor for one thread, which is 1, and of the factor for four threads. */
double gconv_unevenness(double turns);

/* Returns the milliseconds to move input and output from and to the memory of `machine`. */
double gconv_moving_ms(const gconv_problem *problem, const gconv_machine *machine);

/* Returns the milliseconds on `machine` of work that takes `thread_ms` on one thread of the reference CPU, and is cut into
 * `turns` equal turns. It is never less than the time to move input and output. */
double gconv_cpu_ms(const gconv_problem *problem, const gconv_machine *machine, double thread_ms, double turns);

/* Returns the milliseconds on `machine` of a problem whose filters apply tile_taps taps to a sample in tiles, and list_taps
 * in lists. */
double gconv_tile_ms(const gconv_problem *problem, const gconv_machine *machine, double tile_taps, double list_taps);
