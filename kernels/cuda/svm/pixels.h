/* SPDX-License-Identifier: MIT */
/* Machines over pixels on a GPU: the bits of kernels/cpu/svm/pixels.h. Functions start kernels on `stream`, a
 * cudaStream_t, and return at once: cudaGetLastError() tells of failures. Pointers are to memory of the device. */
#ifndef GCONV_KERNELS_CUDA_LEARN_SVM_PIXELS_H
#define GCONV_KERNELS_CUDA_LEARN_SVM_PIXELS_H

#include "kernels/svm_pixels.h"

/* How columns are scaled: as gconv_svm_range_row() of src/svm does it. */
typedef struct gconv_svm_gpu_range {
  double lower, upper;
  const double *least, *most; /* NULL: they are not */
} gconv_svm_gpu_range;

#ifdef __cplusplus
extern "C" {
#endif

/* Of `count` pixels, whose column c is at in[c * plane]: sums as gconv_svm_pixel_sums(). `machine` is in memory of the host,
 * its arrays are not. */
void gconv_svm_gpu_pixel_sums(const gconv_svm_pixels *machine, const gconv_svm_gpu_range *range, const float *in,
                              size_t plane, size_t count, size_t pitch, double *sums, void *stream);

/* The class that has most votes of the pairs, of equal ones the first, as planes: 1 in that of the class, 0 in others. */
void gconv_svm_gpu_pixel_votes(size_t classes, const double *rho, const double *sums, size_t count, size_t pitch, float *out,
                               size_t plane, void *stream);

#ifdef __cplusplus
}
#endif
#endif
