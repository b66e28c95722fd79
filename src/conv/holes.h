/* SPDX-License-Identifier: MIT */
/*
 * Samples of no data in images that plain filters convolve (gconv_image.nodata). No sum contains them:
 *
 *  - If the sample below the anchor is no data, the result is no data.
 *  - If all taps of a filter have one sign (a mean, a Gaussian), the other samples get more weight: their sum is multiplied
 *    by the sum of all taps, and divided by the sum of the taps that lie on data.
 *  - If a filter has taps of both signs (a derivative, a sharpener), the result is no data, as the sum of the other samples
 *    means nothing.
 *  - Taps of 0 do not count, and samples outside of the image follow the border.
 *
 * The algorithms get 0 in place of these samples. Results with such a sample under their taps are computed again, in
 * float64 on the host, by verify.c. So these results do not depend on the device and the algorithm. All other results have
 * the same bits as if there were no samples of no data.
 */
#pragma once

#include "conv/plan.h"

/* Where samples of no data are, in rows of the image to convolve (plan->convolved). */
typedef struct gconv_holes {
  gconv_image filled; /* owned: the rows of the input, with 0 in place of no data; without pixels if all samples are data */
  uint8_t *marks;     /* owned: a byte for each sample of the rows to convolve, without gaps; 1: no data */
  size_t row, plane;  /* bytes of marks of a row, and of a plane */
  bool whole_pixels;  /* a pixel is data or not, with all its channels */
  uint8_t **results;  /* owned, [outputs]: a byte for each sample of the results; 1: no data */
} gconv_holes;

/* Looks for samples of no data in `in`, rows of an input of the plan. Free *holes with gconv_holes_free(), even on
 * failure. */
gconv_status gconv_holes_find(const gconv_filter_plan *plan, const gconv_image *in, gconv_holes *holes);
void gconv_holes_free(const gconv_filter_plan *plan, gconv_holes *holes);

static inline bool gconv_holes_at(const gconv_holes *holes, const gconv_image *convolved, int32_t frame, int32_t channel,
                                  int64_t y, int64_t x) {
  size_t plane = convolved->planar ? (size_t)frame * (size_t)convolved->channels + (size_t)channel : (size_t)frame;
  size_t sample = convolved->planar ? (size_t)x : (size_t)x * (size_t)convolved->channels + (size_t)channel;
  return holes->marks[plane * holes->plane + (size_t)y * holes->row + sample] != 0;
}

/* Computes again the results that have samples of no data under their taps. `images` are rows of the outputs from `first`
 * on, or, if the plan has a stage after, the images that this stage gets. `convolved`: the image to convolve from row
 * in_row on. */
gconv_status gconv_holes_mend(const gconv_filter_plan *plan, gconv_holes *holes, const gconv_image *convolved,
                              int32_t in_row, gconv_image *images, int32_t first);
/* After all stages, stores the number for no data in results that are no data. Warns if other results have it by chance. */
gconv_status gconv_holes_set(const gconv_filter_plan *plan, const gconv_holes *holes, const gconv_image *outputs);
