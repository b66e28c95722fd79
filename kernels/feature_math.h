/* SPDX-License-Identifier: MIT */
/* The formulas of features of pixels, compiled for host and device from one text and without contraction, so that both
 * have the same bits. */
#pragma once

#include "base/both.h"

#include <math.h>
#include <stddef.h>

/* Returns the magnitude of a gradient. */
GCONV_BOTH float gconv_feature_magnitude(float x, float y) {
  return sqrtf(x * x + y * y);
}

/* Computes the eigenvalues of the matrix [a b; b c]. */
GCONV_BOTH void gconv_feature_split(float a, float b, float c, float *large, float *small) {
  float middle = 0.5F * (a + c), half = 0.5F * (a - c), root = sqrtf(half * half + b * b);
  *large = middle + root;
  *small = middle - root;
}

/* Returns the magnitude of Sobel's two derivatives at the sample *at. Rows are `pitch` floats apart. */
GCONV_BOTH float gconv_feature_sobel(const float *at, ptrdiff_t pitch) {
  const float *up = at - pitch, *down = at + pitch;
  float dx = 0.25F * (up[1] - up[-1]) + 0.5F * (at[1] - at[-1]) + 0.25F * (down[1] - down[-1]);
  float dy = 0.25F * (down[-1] - up[-1]) + 0.5F * (down[0] - up[0]) + 0.25F * (down[1] - up[1]);
  return sqrtf(0.5F * (dx * dx + dy * dy));
}

/* Computes the eigenvalues of the matrix of second derivatives at the sample *at. A second derivative is numpy.gradient()
 * twice. */
GCONV_BOTH void gconv_feature_bend(const float *at, ptrdiff_t pitch, float *large, float *small) {
  const float *up = at - pitch, *down = at + pitch, *up2 = up - pitch, *down2 = down + pitch;
  float yy = 0.25F * ((down2[0] - at[0]) - (at[0] - up2[0])), xx = 0.25F * ((at[2] - at[0]) - (at[0] - at[-2]));
  float xy = 0.25F * ((down[1] - up[1]) - (down[-1] - up[-1]));
  gconv_feature_split(yy, xy, xx, large, small);
}
