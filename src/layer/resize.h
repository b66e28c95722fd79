/* SPDX-License-Identifier: MIT */
/* Channels of an image at the pixels of a result of another size: cubic interpolation between pixels (Catmull-Rom) and,
 * where the result is smaller, a mean with these weights. */
#pragma once

#include "gconv.h"

/* The weights along one axis: output i is the sum of `taps` weights times inputs first[i] and those after it. */
typedef struct gconv_resizing {
  int32_t taps;
  int32_t *first; /* owned */
  float *weights; /* owned, [outputs * taps]; the sum of the weights of an output is 1 */
} gconv_resizing;

/* Fills *axis, which gconv_resizing_free() frees, also after a failure. Pixels outside the image have no weight. */
gconv_status gconv_resizing_make(int32_t inputs, int32_t outputs, gconv_resizing *axis);
void gconv_resizing_free(gconv_resizing *axis);

/* Makes row `y` of one channel, in levels. `in` begins at row in_row, and has all rows with weights. `row`: a workspace for
 * a row of `in`. `out` gets `width` results. */
void gconv_resize_row(const gconv_resizing *rows, const gconv_resizing *columns, const gconv_image *in, int32_t in_row,
                      int32_t frame, int32_t channel, int32_t y, float *row, int32_t width, float *out);
