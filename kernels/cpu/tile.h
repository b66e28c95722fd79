/* SPDX-License-Identifier: MIT */
/*
 * The innermost loops of the CPU's algorithms: sums that stay in registers while taps are laid on them, in vector code for
 * the processor at hand. Every sum is sum = fmaf(tap, x, sum) over the taps in the order given, from +0: so all of them, on
 * every processor, have the bits of the exact family; but for gconv_tile_along(), whose order and rounding are the
 * processor's.
 */
#ifndef GCONV_KERNELS_CPU_TILE_H
#define GCONV_KERNELS_CPU_TILE_H

#include "conv/window.h"

/* Rows that gconv_tile_rows() lays at once, and the samples in whose multiples both work: that many floats are written, and
 * read from every source, where `samples` is rounded up to a multiple. */
enum { GCONV_TILE_ROWS = 6, GCONV_TILE_SAMPLES = 64 };

/* sums[i * stride + x] = sum over r, s of taps[s * R + r] * rows[i + r][offsets[s] + first + x], for all i <
 * GCONV_TILE_ROWS, x < samples. Taps are added by rows: all s of r = 0 first. Note that they are stored by columns. */
void gconv_tile_rows(const float *const *rows, size_t first, const int64_t *offsets, const float *taps, int32_t R, int32_t S,
                     size_t samples, float *sums, size_t stride);

/* sums[x] = sum over t of taps[t] * sources[t][x], for all x < samples. */
void gconv_tile_list(const float *const *sources, const float *taps, size_t count, size_t samples, float *sums);

/* Taps along rows: line i has taps[i * length ..], which are `distance` samples apart. */
typedef struct gconv_tile_lines {
  const float *const *sources;
  const float *taps;
  size_t count, length, distance;
} gconv_tile_lines;

/* sums[x] = sum over i, s of taps[i * length + s] * sources[i][x + s * distance], for all x < samples, in an order that the
 * length of the processor's vectors decides, and without fmaf() on the plain target: not of the exact family. False, and
 * nothing is written, where no two taps of a line lie whole vectors apart, so that gconv_tile_list() is as fast, and where
 * the distance is neither a power of two that divides a vector's length nor three times such. */
bool gconv_tile_along(const gconv_tile_lines *lines, size_t samples, float *sums);

/* Output row j of the window's band with all taps of all filters, where it cannot be part of a tile. `sources` has room for
 * R x S pointers. */
void gconv_tile_one_row(const gconv_window *window, int32_t j, const float **sources);

/* Where the sums of filter k, output row j of the window's band begin. */
static inline float *gconv_window_sums(const gconv_window *window, size_t k, int32_t j) {
  return window->sums + (k * (size_t)window->layout.band + (size_t)j) * window->layout.piece;
}

/* ---- For cost() ---- */

/* The multiply-adds that the one thread of the processor that all was measured on does in a millisecond at best. */
double gconv_pace_fma_per_ms(void);

/* Milliseconds in which input and output move to and from the memory of `machine`. */
double gconv_moving_ms(const gconv_problem *problem, const gconv_machine *machine);

/* The milliseconds on `machine` of what takes one thread of the processor that all was measured on `thread_ms`, and can be
 * cut into so many equal turns; never less than moving input and output takes. */
double gconv_cpu_ms(const gconv_problem *problem, const gconv_machine *machine, double thread_ms, double turns);

/* The same for a problem whose filters take so many taps a sample in tiles and in lists. */
double gconv_tile_ms(const gconv_problem *problem, const gconv_machine *machine, double tile_taps, double list_taps);

#endif
