/* SPDX-License-Identifier: MIT */
#include "kernels/cpu/svm/pixels.h"

#define TEMPLATE "kernels/cpu/svm/pixels_template.h"
#include "kernels/cpu/each_isa.h"

void gconv_svm_pixel_sums(const gconv_svm_pixels *machine, const float *in, size_t count, size_t pitch, double *sums) {
  GCONV_CALL_ISA(svm_pixel_sums, (machine, in, count, pitch, sums));
}
