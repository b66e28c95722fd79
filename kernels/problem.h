/* SPDX-License-Identifier: MIT */
/*
 * A problem: one convolution, complete, as the algorithms see it. All options of the user have become sizes, offsets and an
 * epilogue. For image n, plane m, output row p, column q, channel c and filter k, it computes
 *
 *   sum = +0; for r, for s: sum = fmaf(taps[k][r][s], x(n, m, p * stride_y - pad_top + r * dilation_y,
 *                                                           q * stride_x - pad_left + s * dilation_x, c), sum)
 *
 * and then the epilogue (pixel.h). x is the sample's level as float32; outside the image, it is what border.h says.
 */
#pragma once

#include "gconv.h"
#include "kernels/pixel.h"

/* Taps that are integers times a power of two, as in Sobel, Laplacian and binomials. Their sums of u8 samples are exact in
 * float32: unit * positive * 255 and unit * negative * 255 bound them. So integers may be added in any order, and yield the
 * bits of the exact family. */
typedef struct gconv_integers {
  float unit;                 /* tap = integer * unit; 0 if taps are no such integers, or sums could reach 2^24 * unit */
  int32_t least, largest;     /* the least and the largest integer */
  int32_t positive, negative; /* the sums of |integer| of taps above and below 0 */
} gconv_integers;

/* Returns whether there are integers, and each fits into a byte with a sign. */
GCONV_BOTH bool gconv_is_of_bytes(const gconv_integers *integers) {
  return integers->unit > 0 && integers->least >= -128 && integers->largest <= 127;
}

/* Special properties of the taps of a problem's filters, found once. Algorithms decide by them whether they pay off. */
typedef struct gconv_structure {
  int64_t nonzero_taps; /* taps of all filters together that are not 0 */
  int64_t marks;        /* taps of -0, which mark places without a tap: samples there are left out */
  /* How many pairs of a column and a row have the filter as their sum, except for the residual. 0: all taps are 0;
   * GCONV_RANK_HIGH: more pairs than can save anything; GCONV_RANK_UNKNOWN: more than were looked for. */
  int32_t rank;
  double residual; /* sum |tap - sum of pairs| / sum |tap|, of the worst filter (gconv_factor() finds the pairs) */
  double growth;   /* sum over pairs of (sum |column|) * (sum |row|) / sum |tap|, of the worst filter; at least about 1 */
  gconv_integers integers; /* bounds of all filters; the unit is the least of all, or 0 if a filter has none */
  /* If above 0: there is one filter, it has no unit, divisor or bias, and its taps are step times integers from 0 to 127,
   * each rounded to float32, as the taps of a mean are. */
  float step;
  int32_t steps; /* the sum of these integers */
  double gain;   /* sum |tap| / |divisor|, of the filter with the most; 0: all taps are 0, or nothing was found yet */
  double chain;  /* the largest error of a chain of fmaf, relative to (sum |tap|) * max |x|, of the worst filter */
  float box;     /* the value of all taps of the only filter; 0: they differ, or there are several filters */
} gconv_structure;

enum { GCONV_RANK_HIGH = -1, GCONV_RANK_UNKNOWN = -2 };

typedef struct gconv_problem {
  gconv_type in_type, out_type;
  int32_t images;   /* N */
  int32_t planes;   /* planes of an image that are convolved independently: C of a planar image, 1 of an interleaved one */
  int32_t channels; /* samples of a pixel that lie side by side, 1 to 4 */
  bool keep_alpha;  /* the last channel is not convolved: its result is the sample at the anchor times alpha_scale */
  int32_t height, width;      /* H, W */
  int32_t filters;            /* K */
  int32_t rows, columns;      /* R, S */
  int32_t anchor_y, anchor_x; /* pixels from the first tap to the anchor, with dilation */
  int32_t pad_top, pad_left;  /* pixels from the first tap of the first output to the image */
  int32_t stride_y, stride_x;
  int32_t dilation_y, dilation_x;
  int32_t out_height, out_width; /* P, Q */
  gconv_border border;
  float border_level; /* the level of border pixels, in levels of the input; 0 for border zero */
  gconv_epilogue epilogue;
  size_t workspace_limit; /* bytes that an algorithm may want as workspace, state and prepared weights together; the CPU
                             ignores it */
  int32_t block_width,
      block_height;    /* CUDA: threads of a block, for algorithms that have a choice; 0: the algorithm decides */
  int32_t grid_blocks; /* CUDA: most blocks of a grid, for algorithms whose blocks can stride; 0: the algorithm decides */
  double accuracy; /* errors up to which `auto` takes algorithms: half a level, relative to (sum |tap|) * max |x|; 0: any */
  gconv_structure structure;
} gconv_problem;

/* The weights of a problem: K x R x S taps (rotated already, if flip is asked for), then K divisors, then K biases. The
 * floats of the algorithm's prepare() follow at gconv_prepared(). */
GCONV_BOTH int64_t gconv_tap_count(const gconv_problem *problem) {
  return (int64_t)problem->filters * problem->rows * problem->columns;
}
GCONV_BOTH const float *gconv_divisors(const gconv_problem *problem, const float *weights) {
  return weights + gconv_tap_count(problem);
}
GCONV_BOTH const float *gconv_biases(const gconv_problem *problem, const float *weights) {
  return weights + gconv_tap_count(problem) + problem->filters;
}

/* Returns the number of taps, divisors and biases, rounded up so that the prepared part is aligned to 64 bytes. */
GCONV_BOTH int64_t gconv_weight_floats(const gconv_problem *problem) {
  return (gconv_tap_count(problem) + 2 * (int64_t)problem->filters + 15) / 16 * 16;
}
GCONV_BOTH const float *gconv_prepared(const gconv_problem *problem, const float *weights) {
  return weights + gconv_weight_floats(problem);
}

/* Returns whether responses are combined. If not, each filter has its own output, or its own part of the stacked one. */
GCONV_BOTH bool gconv_is_combined(const gconv_problem *problem) {
  return problem->epilogue.combine != GCONV_COMBINE_NONE && problem->epilogue.combine != GCONV_COMBINE_STACK;
}

/* Returns whether a tap is a mark, -0: its place has no tap. Algorithms that do not look for marks multiply by 0, which
 * matters where a sample is not finite (gconv_algorithm.leaves_out_marks). */
GCONV_BOTH bool gconv_is_mark(float tap) {
  return tap == 0 && 1 / tap < 0;
}

/* Returns how many pixels of an input row, with its border pixels, the filters reach: from the first tap of the first output
 * to the last tap of the last output. */
GCONV_BOTH int64_t gconv_reach(const gconv_problem *problem) {
  return (int64_t)(problem->out_width - 1) * problem->stride_x + (int64_t)(problem->columns - 1) * problem->dilation_x + 1;
}
