/* SPDX-License-Identifier: MIT */
/*
 * Samples of no data in what plain filters convolve (gconv_image.nodata). They are no part of any sum:
 *
 *  - Below the anchor, the result is no data.
 *  - Of a filter whose taps have one sign (a mean, a Gaussian), the others are weighted as if they were all: the sum is
 *    multiplied by the sum of all taps, and divided by that of the taps that lie on data.
 *  - Of a filter with taps of both signs (a derivative, a sharpener), the result is no data, as such a sum says nothing.
 *  - Taps of 0 do not count, and samples outside of the image are what the border says.
 *
 * The algorithms get 0 in their places. Results with such a sample under their taps are made once more, in float64 on the
 * host, by verify.c: so they are the same for all devices and algorithms, and all other results have the bits that they
 * would have without.
 */
#ifndef GCONV_CONV_HOLES_H
#define GCONV_CONV_HOLES_H

#include "conv/plan.h"

/* Where no data are, in rows of what is convolved. */
typedef struct gconv_holes {
  gconv_image filled; /* owned: the rows of the input, with 0 where no data are; without pixels, if there are none */
  uint8_t *marks;     /* owned: a byte a sample of the convolved rows, which lie one after the other */
  size_t row, plane;  /* bytes of marks */
  bool whole_pixels;  /* a pixel is data or not, with all its channels */
  uint8_t **results;  /* owned, [outputs]: a byte a sample of the results: no data */
} gconv_holes;

/* Looks for them in `in`, rows of an input of the plan. *holes is for gconv_holes_free() in any case. */
gconv_status gconv_holes_find(const gconv_filter_plan *plan, const gconv_image *in, gconv_holes *holes);
void gconv_holes_free(const gconv_filter_plan *plan, gconv_holes *holes);

static inline bool gconv_holes_at(const gconv_holes *holes, const gconv_image *convolved, int32_t frame, int32_t channel,
                                  int64_t y, int64_t x) {
  size_t plane = convolved->planar ? (size_t)frame * (size_t)convolved->channels + (size_t)channel : (size_t)frame;
  size_t sample = convolved->planar ? (size_t)x : (size_t)x * (size_t)convolved->channels + (size_t)channel;
  return holes->marks[plane * holes->plane + (size_t)y * holes->row + sample] != 0;
}

/* Makes the results anew that have such samples under their taps: in `images`, rows of the outputs from `first` on, or, if
 * the plan has a stage after, of what that stage gets. `convolved` is what was convolved, from row in_row on. */
gconv_status gconv_holes_mend(const gconv_filter_plan *plan, gconv_holes *holes, const gconv_image *convolved,
                              int32_t in_row, gconv_image *images, int32_t first);
/* Sets the results that are no data, after all stages, and counts those that are called so by chance. */
gconv_status gconv_holes_set(const gconv_filter_plan *plan, const gconv_holes *holes, const gconv_image *outputs);

#endif
