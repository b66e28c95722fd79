/* SPDX-License-Identifier: MIT */
/* The row filters of PNG (specification, clause 9), with vector code. */
#pragma once

#include "base/both.h"

#include <stddef.h>
#include <stdint.h>

/* The filters, by their numbers in the file. */
enum gconv_png_filter { GCONV_PNG_NONE, GCONV_PNG_SUB, GCONV_PNG_UP, GCONV_PNG_AVERAGE, GCONV_PNG_PAETH, GCONV_PNG_FILTERS };

/* Returns which of left, up and corner is nearest to left + up - corner; if several are equally near, the first of them.
 * That takes fewer steps than comparing distances: it is the smaller of left and up if 3 corner - left - up is at least the
 * larger of them, the larger if it is at most the smaller, else the corner. */
GCONV_BOTH int16_t gconv_png_predict_paeth(int16_t left, int16_t up, int16_t corner) {
  int16_t sum = (int16_t)(3 * corner - left - up), smaller = left < up ? left : up, larger = left < up ? up : left;
  int16_t inner = sum <= smaller ? larger : corner;
  return sum >= larger ? smaller : inner;
}

/* Returns what a filter predicts for a sample, from its neighbours to the left, above, and above left. All are 0 to 255;
 * neighbours outside the image are 0. */
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

/* Sets out[i] to row[i] minus what the filter predicts from the pixels to the left, above, and above left. `pixel` is the
 * bytes of a pixel: 1, 2, 3, 4, 6 or 8; `bytes` is a multiple of it. `above` is the row above; zeros for the first row.
 * `row`, `above` and `out` do not overlap. */
void gconv_png_filter_row(int filter, const uint8_t *row, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out);

/* Undoes gconv_png_filter_row(): `in` holds the differences, `out` gets the samples of the row. */
void gconv_png_unfilter_row(int filter, const uint8_t *in, const uint8_t *above, size_t bytes, size_t pixel, uint8_t *out);
