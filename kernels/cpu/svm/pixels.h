/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/svm_pixels.h"

enum { GCONV_SVM_PIXELS_AT_ONCE = 32 };

/* Computes the sums over the support vectors of each class (kernels/svm_pixels.h) for `count` pixels, a multiple of
 * GCONV_SVM_PIXELS_AT_ONCE. Column c of pixel p is in[c * pitch + p]. The sum of class k and row of coefficients w is
 * sums[(k * wide + w) * pitch + p]. */
void gconv_svm_pixel_sums(const gconv_svm_pixels *machine, const float *in, size_t count, size_t pitch, double *sums);
