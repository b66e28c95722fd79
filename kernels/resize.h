/* SPDX-License-Identifier: MIT */
/* How Resize finds the inputs (taps) of an output along an axis, and their weights; compiled for host and device from one
 * text. The formulas are from Resize in ONNX's Operators.md, and from the reference of ONNX's tests. */
#pragma once

#include "base/both.h"

#include <math.h>
#include <stdbool.h>

typedef enum gconv_resize_mode { GCONV_RESIZE_NEAREST, GCONV_RESIZE_LINEAR, GCONV_RESIZE_CUBIC } gconv_resize_mode;
typedef enum gconv_resize_coordinates {
  GCONV_RESIZE_HALF_PIXEL,
  GCONV_RESIZE_PYTORCH,
  GCONV_RESIZE_CORNERS,
  GCONV_RESIZE_ASYMMETRIC,
  GCONV_RESIZE_CROP,
  GCONV_RESIZE_SYMMETRIC,
  GCONV_RESIZE_NEAREST_OF_TF
} gconv_resize_coordinates;
typedef enum gconv_resize_rounding {
  GCONV_RESIZE_PREFER_FLOOR,
  GCONV_RESIZE_PREFER_CEIL,
  GCONV_RESIZE_FLOOR,
  GCONV_RESIZE_CEIL
} gconv_resize_rounding;

/* How one axis is resized. */
typedef struct gconv_resize_axis {
  int64_t in, out;
  double scale;
  double begin, end; /* the region of tf_crop_and_resize, of 0 .. 1 */
  gconv_resize_mode mode;
  gconv_resize_coordinates coordinates;
  gconv_resize_rounding rounding;
  bool antialias, excludes;
  double cubic;
} gconv_resize_axis;

/* Returns x / scale. The scale was rounded to float32, so 6 / 1.2 is not exactly 5. To find the nearest input, the quotient
 * is rounded to float32, as in other programs: then it is 5. */
GCONV_BOTH double gconv_resize_unscaled(const gconv_resize_axis *a, double x) {
  const double place = x / a->scale;
  return a->mode == GCONV_RESIZE_NEAREST ? (double)(float)place : place;
}

/* Returns the place among the inputs that output `o` lies on. */
GCONV_BOTH double gconv_resize_coordinate(const gconv_resize_axis *a, int64_t o) {
  const double x = (double)o, in = (double)a->in, out = (double)a->out;
  switch (a->coordinates) {
  case GCONV_RESIZE_HALF_PIXEL:
    return gconv_resize_unscaled(a, x + 0.5) - 0.5;
  case GCONV_RESIZE_PYTORCH:
    return out > 1 ? gconv_resize_unscaled(a, x + 0.5) - 0.5 : 0;
  case GCONV_RESIZE_CORNERS:
    return out > 1 ? x * (in - 1) / (out - 1) : 0;
  case GCONV_RESIZE_ASYMMETRIC:
    return gconv_resize_unscaled(a, x);
  case GCONV_RESIZE_CROP:
    return out > 1 ? a->begin * (in - 1) + x * (a->end - a->begin) * (in - 1) / (out - 1)
                   : 0.5 * (a->begin + a->end) * (in - 1);
  case GCONV_RESIZE_SYMMETRIC: {
    const double adjustment = out / (a->scale * in);
    return in / 2 * (1 - adjustment) + gconv_resize_unscaled(a, x + 0.5) - 0.5;
  }
  case GCONV_RESIZE_NEAREST_OF_TF:
    return gconv_resize_unscaled(a, x + 0.5);
  }
  return 0;
}

GCONV_BOTH int64_t gconv_resize_nearest(const gconv_resize_axis *a, double x) {
  switch (a->rounding) {
  case GCONV_RESIZE_PREFER_FLOOR:
    return (int64_t)ceil(x - 0.5);
  case GCONV_RESIZE_PREFER_CEIL:
    return (int64_t)floor(x + 0.5);
  case GCONV_RESIZE_FLOOR:
    return (int64_t)floor(x);
  case GCONV_RESIZE_CEIL:
    return (int64_t)ceil(x);
  }
  return 0;
}

/* Returns the weight of an input at a distance from the coordinate. */
GCONV_BOTH double gconv_resize_weight(const gconv_resize_axis *a, double distance) {
  const double d = fabs(distance), c = a->cubic;
  if (a->mode == GCONV_RESIZE_LINEAR)
    return d < 1 ? 1 - d : 0;
  if (d <= 1)
    return ((c + 2) * d - (c + 3)) * d * d + 1;
  return d < 2 ? ((c * d - 5 * c) * d + 8 * c) * d - 4 * c : 0;
}

/* Returns the factor by which filters become wider: with antialias, it is the factor by which the axis shrinks. */
GCONV_BOTH double gconv_resize_width(const gconv_resize_axis *a) {
  return a->antialias && a->scale < 1 ? 1 / a->scale : 1;
}

/* Returns the number of taps of an output. */
GCONV_BOTH int64_t gconv_resize_taps(const gconv_resize_axis *a) {
  if (a->mode == GCONV_RESIZE_NEAREST)
    return 1;
  const double reach = a->mode == GCONV_RESIZE_LINEAR ? 1 : 2;
  const int64_t count = (int64_t)(2 * ceil(reach * gconv_resize_width(a)));
  return a->antialias && a->scale < 1 ? count + 1 : count;
}

/* Sets index[] of the `count` taps of output `o`, and their weights: wide[] or, if it is NULL, weight[]. Returns true if the
 * output lies outside of the input, and gets the extrapolation value. */
GCONV_BOTH bool gconv_resize_fill(const gconv_resize_axis *a, int64_t o, int64_t count, int64_t *index, float *weight,
                                  double *wide) {
  const double x = gconv_resize_coordinate(a, o), width = gconv_resize_width(a), last = (double)(a->in - 1);
  const bool outside = a->coordinates == GCONV_RESIZE_CROP && (x < 0 || x > last);
  double sum = 0;
  if (a->mode == GCONV_RESIZE_NEAREST) {
    const int64_t at = gconv_resize_nearest(a, x);
    index[0] = at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
    if (wide)
      wide[0] = 1;
    else
      weight[0] = 1;
    return outside;
  }
  const int64_t first = (int64_t)floor(x) - (count - 1) / 2;
  for (int pass = 0; pass < 2; pass++) /* first adds up the weights, then divides by their sum */
    for (int64_t k = 0; k < count; k++) {
      const int64_t at = first + k;
      double w = gconv_resize_weight(a, ((double)at - x) / width);
      if (a->excludes && (at < 0 || at >= a->in))
        w = 0;
      if (pass == 0) {
        sum += w;
        continue;
      }
      index[k] = at < 0 ? 0 : at >= a->in ? a->in - 1 : at;
      w = a->excludes || a->antialias ? w / sum : w;
      if (wide)
        wide[k] = w;
      else
        weight[k] = (float)w;
    }
  return outside;
}
