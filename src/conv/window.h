/* SPDX-License-Identifier: MIT */
/*
 * The walk that algorithms of the CPU share: input rows become float32 once, with their borders, in a ring of rows that
 * stays in cache; then sums are made for a few output rows at a time, and go through the epilogue while they are in L1.
 *
 * Columns come in blocks, so narrow that the ring stays in L2 however wide the image and high the filter; a block is laid in
 * pieces, so narrow that the sums stay in L1. Stride and dilation are dissolved here:
 *
 *  - Output rows p, p + classes, p + 2 * classes ... meet input rows of one lattice, dilation_y apart: tap row r of the j-th
 *    of them meets lattice row j * step + r. Each class is walked by itself. (classes = dilation_y / g, step = stride_y / g,
 *    g their greatest common divisor.)
 *  - Columns that are stride_x apart lie side by side in the ring, one run ("phase") for each column that a tap needs modulo
 *    stride_x. Tap column s then finds the samples of neighbouring outputs side by side, from offsets[s] on.
 */
#ifndef GCONV_CONV_WINDOW_H
#define GCONV_CONV_WINDOW_H

#include "conv/algorithm.h"

/* Sizes that follow from a problem. */
typedef struct gconv_layout {
  int32_t classes, step;
  int32_t band;     /* output rows that are laid at a time: what the algorithm wants, or 1 where step > 1 */
  size_t block;     /* samples of an output row in a block */
  size_t piece;     /* samples in a piece; block is a multiple, both are whole pixels and multiples of 64 */
  size_t phases;    /* of a row of the ring */
  size_t phase;     /* floats of each, with room to read GCONV_WINDOW_SLACK past the last sample needed */
  size_t row;       /* floats of a row of the ring */
  size_t ring_rows; /* band - 1 + R, or R */
} gconv_layout;

enum { GCONV_WINDOW_SLACK = 64 };

/* What an algorithm sees of a piece. */
typedef struct gconv_window {
  const gconv_execution *execution;
  gconv_layout layout;
  const float *const *rows; /* tap row r of the j-th output row of the band meets rows[j * layout.step + r] */
  const int64_t *offsets;   /* S: tap column s meets rows[..][offsets[s] + i] for sample i of the block */
  int32_t count;            /* output rows of this band: layout.band, or fewer if a strip has fewer of the class */
  size_t width;             /* samples of this block: layout.block, or fewer in the last */
  size_t first;             /* sample of the block where the piece begins: a multiple of 64 */
  size_t samples;           /* of the piece */
  bool finite;              /* whether all samples of `rows` are, if the algorithm asked */
  float *sums; /* to be written: the sum of filter k, output row j, sample i is sums[(k * band + j) * piece + i]; */
               /*   rounded up to a multiple of 64, i may exceed `samples` */
  void *extra; /* the algorithm's part of the workspace, aligned to 64 bytes */
} gconv_window;

/* Called for the pieces of a block from left to right, then for the next band. */
typedef void gconv_lay(const gconv_window *window);

/* Floats of a phase that taps reach beyond those of the block's samples: (S - 1) * dilation_x / stride_x pixels. */
size_t gconv_window_halo(const gconv_problem *problem);

/* How to walk: bands of `band` rows, a ring of about ring_bytes. */
gconv_layout gconv_layout_of(const gconv_problem *problem, int32_t band, size_t ring_bytes);

/* Of the whole walk, with `extra` bytes for the algorithm; SIZE_MAX if that overflows. */
size_t gconv_window_bytes(const gconv_problem *problem, const gconv_layout *layout, size_t extra);

/* Walks the rows of the execution and stores them. check_finite: fill in window->finite. */
void gconv_walk(const gconv_execution *execution, const gconv_layout *layout, bool check_finite, gconv_lay *lay);

#endif
