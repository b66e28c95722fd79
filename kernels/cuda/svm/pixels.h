/* SPDX-License-Identifier: MIT */
/* Support vector machines over pixels on a GPU, with the bits of kernels/cpu/svm/pixels.h. Functions start kernels on
 * `stream`, a cudaStream_t, and return at once; cudaGetLastError() returns their failure. Pointers are to device memory. */
#pragma once

#include "kernels/svm_pixels.h"

/* How columns are scaled, as by gconv_svm_range_row() of src/svm. */
typedef struct gconv_svm_gpu_range {
  double lower, upper;
  const double *least, *most; /* the smallest and largest number of each column; NULL: no scaling */
} gconv_svm_gpu_range;

#ifdef __cplusplus
extern "C" {
#endif

/* Computes the sums of gconv_svm_pixel_sums(), for `count` pixels; column c of pixel p is in[c * plane + p]. The record
 * `machine` is in host memory, its arrays are in device memory. */
void gconv_svm_gpu_pixel_sums(const gconv_svm_pixels *machine, const gconv_svm_gpu_range *range, const float *in,
                              size_t plane, size_t count, size_t pitch, double *sums, void *stream);

/* Finds the class with the most votes of all pairs. Of classes with equally many votes, the first is taken. out[k * plane +
 * p] is 1 if k is the class of pixel p, else 0. */
void gconv_svm_gpu_pixel_votes(size_t classes, const double *rho, const double *sums, size_t count, size_t pitch, float *out,
                               size_t plane, void *stream);

/* Sets the planes to NaN at pixels with a column that is NaN or infinite. Such pixels have no class. */
void gconv_svm_gpu_clear_planes(const float *in, size_t in_plane, size_t columns, size_t count, float *out, size_t plane,
                                size_t classes, void *stream);

#ifdef __cplusplus
}
#endif
