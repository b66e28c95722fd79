/* SPDX-License-Identifier: MIT */
/*
 * Support vector machines with the RBF kernel, applied to pixels. The order of all float32 operations is fixed, so that all
 * devices have the same bits:
 *
 *     distance = +0; for each column: d = x - v; distance = fmaf(d, d, distance)
 *     value    = gconv_exp_negative(-gamma * distance)
 *     part     = +0; for up to GCONV_SVM_PART vectors of a class: part = fmaf(coefficient, value, part)
 *     sum      = +0; for the parts of the class, from its first vector on: sum = sum + part, in float64
 *
 * Distances are sums of squared differences, not computed from norms. So each column adds a relative error of some 2^-24,
 * however far from 0 the numbers are.
 */
#pragma once

#include "kernels/activation.h"

#include <stddef.h>
#include <stdint.h>

enum {
  GCONV_SVM_PART = 32,
  GCONV_SVM_PIXEL_COLUMNS = 64, /* at most */
  GCONV_SVM_PIXEL_WIDE = 8      /* rows of coefficients, at most: 9 classes */
};

typedef struct gconv_svm_pixels {
  size_t columns, classes, wide; /* wide: coefficients of a vector, classes - 1 */
  float gamma;
  const float *points;       /* support vectors: vectors x columns, sorted by class */
  const float *coefficients; /* vectors x wide */
  const uint32_t *begins;    /* classes + 1: the first vector of each class */
} gconv_svm_pixels;

GCONV_BOTH float gconv_svm_pixel_value(float gamma, float distance) {
  return gconv_exp_negative(-gamma * distance);
}
