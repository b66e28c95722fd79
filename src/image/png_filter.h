/* SPDX-License-Identifier: MIT */
/* The row filters of PNG (specification, clause 9), with vector code. */
#ifndef GCONV_IMAGE_PNG_FILTER_H
#define GCONV_IMAGE_PNG_FILTER_H

#include "base/both.h"

#include <stddef.h>
#include <stdint.h>

/* By their numbers in the file. */
enum gconv_png_filter { GCONV_PNG_NONE, GCONV_PNG_SUB, GCONV_PNG_UP, GCONV_PNG_AVERAGE, GCONV_PNG_PAETH, GCONV_PNG_FILTERS };

/* Of left, up and corner, the one nearest to left + up - corner; the first of them where they are equally near. That is the
 * smaller of left and up where 3 corner - left - up is not below the larger one, the larger where it is not above the
 * smaller one, else the corner: fewer steps than by distances. */
GCONV_BOTH int16_t gconv_png_predict_paeth(int16_t left, int16_t up, int16_t corner) {
  int16_t sum = (int16_t)(3 * corner - left - up), smaller = left < up ? left : up, larger = left < up ? up : left;
  int16_t inner = sum <= smaller ? larger : corner;
  return sum >= larger ? smaller : inner;
}

/* What a filter predicts of a sample: of 0 to 255 as the others. Those outside the image are 0. */
GCONV_BOTH int16_t gconv_png_predict(int filter, int16_t left, int16_t up, int16_t corner) {
  switch (filter) {
  case GCONV_PNG_NONE:
    return 0;
  case GCONV_PNG_SUB:
    return left;
  case GCONV_PNG_UP:
    return up;
  case GCONV_PNG_AVERAGE:
    return (int16_t)((left + up) >> 1);
  default:
    return gconv_png_predict_paeth(left, up, corner);
  }
}

/* out[i] = row[i] - what the filter predicts from the pixel to the left, the one above, and the one above that to the left.
 * `pixel` is the bytes of a pixel: 1, 2, 3, 4, 6 or 8; `bytes` a multiple of it. `above` is the row above; zeros for the
 * first row. The three do not overlap. */
void gconv_png_filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out);

/* The inverse: `out` gets the samples of the row, `in` holds the differences. */
void gconv_png_unfilter_row(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out);

#endif
