/* SPDX-License-Identifier: MIT */
#ifndef GCONV_KERNELS_CPU_LEARN_SVM_PIXELS_H
#define GCONV_KERNELS_CPU_LEARN_SVM_PIXELS_H

#include "kernels/svm_pixels.h"

enum { GCONV_SVM_PIXELS_AT_ONCE = 32 };

/* Of `count` pixels, a multiple of GCONV_SVM_PIXELS_AT_ONCE, whose column c is at in[c * pitch]: the sum of class k and row
 * of coefficients w goes to sums[(k * wide + w) * pitch]. */
void gconv_svm_pixel_sums(const gconv_svm_pixels *machine, const float *in, size_t count, size_t pitch, double *sums);

#endif
