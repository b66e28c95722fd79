/* SPDX-License-Identifier: MIT */
#include "layer/resize.h"
#include "base/memory.h"
#include "operation/verify.h"

#include <math.h>

/* The cubic of Catmull and Rom, which is 1 at 0, and 0 at all other whole numbers. */
static double cubic(double x) {
  x = fabs(x);
  return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static void weigh(int32_t inputs, int32_t outputs, int32_t i, gconv_resizing *axis) {
  const double scale = (double)inputs / outputs, wide = fmax(scale, 1), centre = (i + 0.5) * scale - 0.5;
  float *weights = axis->weights + (size_t)i * (size_t)axis->taps;
  int32_t first = (int32_t)ceil(centre - 2 * wide);
  first = first > inputs - axis->taps ? inputs - axis->taps : first;
  first = first > 0 ? first : 0;
  double sum = 0;
  for (int32_t t = 0; t < axis->taps; t++)
    sum += cubic((first + t - centre) / wide);
  for (int32_t t = 0; t < axis->taps; t++)
    weights[t] = (float)(cubic((first + t - centre) / wide) / sum);
  axis->first[i] = first;
}

gconv_status gconv_resizing_make(int32_t inputs, int32_t outputs, gconv_resizing *axis) {
  const double wide = fmax((double)inputs / outputs, 1);
  const int32_t taps = inputs == outputs ? 1 : (int32_t)fmin(ceil(4 * wide), inputs);
  *axis = (gconv_resizing){.taps = taps,
                           .first = calloc((size_t)outputs, sizeof *axis->first),
                           .weights = calloc((size_t)outputs * (size_t)taps, sizeof *axis->weights)};
  if (!axis->first || !axis->weights)
    return gconv_fail(GCONV_NO_MEMORY, "no memory to resize an image");
  for (int32_t i = 0; i < outputs && taps > 1; i++)
    weigh(inputs, outputs, i, axis);
  for (int32_t i = 0; i < outputs && taps == 1; i++) {
    axis->first[i] = inputs == outputs ? i : 0;
    axis->weights[i] = 1;
  }
  return GCONV_OK;
}

void gconv_resizing_free(gconv_resizing *axis) {
  free(axis->first);
  free(axis->weights);
  *axis = (gconv_resizing){0};
}

void gconv_resize_row(const gconv_resizing *rows, const gconv_resizing *columns, const gconv_image *in, int32_t in_row,
                      int32_t frame, int32_t channel, int32_t y, float *row, int32_t width, float *out) {
  for (int32_t x = 0; x < in->width; x++)
    row[x] = 0;
  for (int32_t t = 0; t < rows->taps; t++) {
    const float weight = rows->weights[(size_t)y * (size_t)rows->taps + (size_t)t];
    const int64_t from = rows->first[y] + t - in_row;
    for (int32_t x = 0; x < in->width && weight != 0; x++)
      row[x] += weight * (float)gconv_sample_at(in, frame, channel, from, x);
  }
  for (int32_t x = 0; x < width; x++) {
    const float *weights = columns->weights + (size_t)x * (size_t)columns->taps, *from = row + columns->first[x];
    float sum = 0;
    for (int32_t t = 0; t < columns->taps; t++)
      sum += weights[t] * from[t];
    out[x] = sum;
  }
}
