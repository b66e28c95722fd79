/* SPDX-License-Identifier: MIT */
/*
 * A problem: one convolution, whole, as the algorithms see it. Everything that a user may ask for is resolved into sizes,
 * offsets and an epilogue; what remains is, for image n, plane m, output row p, column q, channel c and filter k:
 *
 *   sum = +0; for r, for s: sum = fmaf(taps[k][r][s], x(n, m, p * stride_y - pad_top + r * dilation_y,
 *                                                           q * stride_x - pad_left + s * dilation_x, c), sum)
 *
 * then the epilogue (pixel.h). x is float32 of the sample's level, and what border.h says outside the image.
 */
#ifndef GCONV_CONV_PROBLEM_H
#define GCONV_CONV_PROBLEM_H

#include "conv/pixel.h"
#include "gconv.h"

/* What is special about the taps of a problem's filters: found once, so that algorithms can tell whether they pay. */
typedef struct gconv_structure {
  int64_t nonzero_taps; /* of all filters together */
  int32_t rank;    /* pairs of a column and a row that each filter is the sum of, but for the residual; 0: all taps are 0; */
                   /*   GCONV_RANK_HIGH: so many that they would not save anything, or too many taps to find out */
  double residual; /* sum |tap - sum of pairs| / sum |tap|, of the worst filter (gconv_factor() finds the pairs) */
  double growth;   /* sum over pairs of (sum |column|) * (sum |row|) / sum |tap|, of the worst filter; at least about 1 */
} gconv_structure;

enum { GCONV_RANK_HIGH = -1 };

typedef struct gconv_problem {
  gconv_type in_type, out_type;
  int32_t images;             /* N */
  int32_t planes;             /* planes of an image that are convolved alike: C of a planar image, 1 of an interleaved one */
  int32_t channels;           /* interleaved samples of a pixel, 1 to 4 */
  bool keep_alpha;            /* the last of them is passed through: the sample below the anchor, scaled by alpha_scale */
  int32_t height, width;      /* H, W */
  int32_t filters;            /* K */
  int32_t rows, columns;      /* R, S */
  int32_t anchor_y, anchor_x; /* of the anchor, dilated: in pixels from the first tap */
  int32_t pad_top, pad_left;  /* pixels before the image at which the first tap of the first output lies */
  int32_t stride_y, stride_x;
  int32_t dilation_y, dilation_x;
  int32_t out_height, out_width; /* P, Q */
  gconv_border border;
  float border_level; /* of the constant border, in levels of the input; 0 for zero */
  gconv_epilogue epilogue;
  size_t workspace_limit; /* bytes that an algorithm may want as workspace, state and prepared weights together; on the CPU,
                             not counted */
  int32_t block_width, block_height; /* CUDA: threads of a block, where the algorithm has a choice; 0: its own */
  int32_t grid_blocks; /* CUDA: blocks of a grid at most, where its blocks can stride; 0: as many as it likes */
  gconv_structure structure;
} gconv_problem;

/* The weights of a problem: K x R x S taps (already turned, where flip is asked), then K divisors, then K biases. Behind
 * them, at gconv_prepared(), stands what the algorithm's prepare() wrote. */
GCONV_BOTH int64_t gconv_tap_count(const gconv_problem *problem) {
  return (int64_t)problem->filters * problem->rows * problem->columns;
}
GCONV_BOTH const float *gconv_divisors(const gconv_problem *problem, const float *weights) {
  return weights + gconv_tap_count(problem);
}
GCONV_BOTH const float *gconv_biases(const gconv_problem *problem, const float *weights) {
  return weights + gconv_tap_count(problem) + problem->filters;
}

/* Floats of taps, divisors and biases, rounded up so that what is prepared is aligned to 64 bytes. */
GCONV_BOTH int64_t gconv_weight_floats(const gconv_problem *problem) {
  return (gconv_tap_count(problem) + 2 * (int64_t)problem->filters + 15) / 16 * 16;
}
GCONV_BOTH const float *gconv_prepared(const gconv_problem *problem, const float *weights) {
  return weights + gconv_weight_floats(problem);
}

/* Whether each filter has an output (or a part of the stacked one) of its own. */
GCONV_BOTH bool gconv_is_combined(const gconv_problem *problem) {
  return problem->epilogue.combine != GCONV_COMBINE_NONE && problem->epilogue.combine != GCONV_COMBINE_STACK;
}

/* Pixels of an input row with its borders, as far as the filters reach: those between the first tap of the first output and
 * the last tap of the last. */
GCONV_BOTH int64_t gconv_reach(const gconv_problem *problem) {
  return (int64_t)(problem->out_width - 1) * problem->stride_x + (int64_t)(problem->columns - 1) * problem->dilation_x + 1;
}

#ifdef __cplusplus
extern "C" {
#endif

/* Resolves `options` for images like `like` and `filters` (all of one size and anchor) into *problem, all but its structure,
 * which gconv_find_structure() finds, and its weights (gconv_weight_floats() of them, nothing prepared yet; for
 * gconv_release()). Beyond a border of zeros, rows and columns of taps that meet the image at no output are left out. `like`
 * is as convolved: grey, linear light and premultiplication are behind it. */
gconv_status gconv_problem_create(const gconv_image *like, const gconv_filter *filters, size_t count,
                                  const gconv_options *options, gconv_problem *problem, float **weights);

/* GCONV_BAD_ARGUMENT if an option is out of its range by itself. */
gconv_status gconv_options_check(const gconv_options *options);

#ifdef __cplusplus
}
#endif
#endif
