/* SPDX-License-Identifier: MIT */
/*
 * The loop that algorithms of the CPU share. Input rows are converted to float32 once, with their borders, into a ring of
 * rows that stays in cache. Rows that are float32 already are read in the image, except near their ends. Sums are computed
 * for a few output rows at a time, and go through the epilogue while they are in L1.
 *
 * Columns are divided into blocks, so narrow that the ring stays in L2 for any width of the image and any height of the
 * filter. A block is divided into pieces, so narrow that the sums stay in L1. This loop resolves strides and dilations:
 *
 *  - Let g be the greatest common divisor of stride_y and dilation_y, classes = dilation_y / g and step = stride_y / g.
 *    Output rows p, p + classes, p + 2 * classes ... form a class. The input rows of a class are dilation_y apart: they are
 *    its lattice rows 0, 1, 2 ... For the j-th output row of a class, tap row r uses lattice row j * step + r. The loop
 *    processes one class after the other.
 *  - Columns that are stride_x apart are neighbours in the ring, in a run called a phase. There is a phase for each column
 *    modulo stride_x that a tap needs. So tap column s finds the samples of neighbouring outputs side by side, from
 *    offsets[s] on.
 */
#pragma once

#include "kernels/algorithm.h"

/* Sizes that follow from a problem. */
typedef struct gconv_layout {
  int32_t classes, step;
  int32_t band;     /* output rows that are computed at a time: the number that the algorithm wants, or 1 if step > 1 */
  size_t block;     /* samples of an output row in a block */
  size_t piece;     /* samples in a piece; block is a multiple of it; both are whole pixels and multiples of 64 */
  size_t phases;    /* phases of a row of the ring */
  size_t phase;     /* floats of a phase, with GCONV_WINDOW_SLACK readable floats past the last sample needed */
  size_t row;       /* floats of a row of the ring */
  size_t ring_rows; /* band - 1 + R */
} gconv_layout;

enum { GCONV_WINDOW_SLACK = 64 };

/* A piece of a band: the input and output of gconv_make_piece(). */
typedef struct gconv_window {
  const gconv_execution *execution;
  gconv_layout layout;
  const float *const *rows; /* tap row r of the j-th output row of the band uses rows[j * layout.step + r] */
  const int64_t *offsets;   /* S offsets: tap column s uses rows[..][offsets[s] + i] for sample i of the block */
  int32_t count;            /* output rows of this band: layout.band, or fewer if the strip has fewer rows of the class */
  size_t width;             /* samples of this block: layout.block, or fewer in the last block */
  size_t first;             /* first sample of the piece, counted in the block: a multiple of 64 */
  size_t samples;           /* samples of the piece */
  bool finite;              /* all samples of `rows` are finite; set only if the algorithm asked for it */
  float *sums; /* the result: the sum of filter k, output row j, sample i is sums[(k * band + j) * piece + i]; */
               /* i may exceed `samples`, up to the next multiple of 64 */
  void *extra; /* the algorithm's part of the workspace, aligned to 64 bytes */
} gconv_window;

/* Computes the sums of a piece. gconv_walk() calls it for the pieces of a band from left to right, band after band. */
typedef void gconv_make_piece(const gconv_window *window);

/* Returns the stride divided by the greatest common divisor of stride and dilation. Taps i and i + period use one phase. */
int32_t gconv_tap_period(int32_t stride, int32_t dilation);

/* Returns how many floats of a phase lie under the taps beyond a block's last sample: (S - 1) * dilation_x / stride_x
 * pixels. */
size_t gconv_window_halo(const gconv_problem *problem);

/* Chooses the layout: bands of `band` rows, and a ring of about ring_bytes. */
gconv_layout gconv_layout_of(const gconv_problem *problem, int32_t band, size_t ring_bytes);

/* Returns the bytes of workspace for gconv_walk(), with `extra` bytes for the algorithm; SIZE_MAX if that overflows. */
size_t gconv_window_bytes(const gconv_problem *problem, const gconv_layout *layout, size_t extra);

/* Computes the rows of the execution and stores them. If `check_finite`, sets window->finite. */
void gconv_walk(const gconv_execution *execution, const gconv_layout *layout, bool check_finite,
                gconv_make_piece *make_piece);
