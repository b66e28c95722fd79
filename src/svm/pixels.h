/* SPDX-License-Identifier: MIT */
/* Support vector machines over many pixels: a form of models for kernels/svm_pixels.h, and what they make of planes. */
#ifndef GCONV_SVM_PIXELS_H
#define GCONV_SVM_PIXELS_H

#include "kernels/svm_pixels.h"
#include "svm/svm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model in float32. Zero-initialise before first use. */
typedef struct gconv_svm_lean {
  gconv_svm_pixels machine; /* columns is 0 where a model does not fit: then float64 predicts */
  float *points, *coefficients;
  uint32_t *begins;
} gconv_svm_lean;

/* Whether a model fits: of the RBF kernel, with at most 9 classes and 64 columns, and with coefficients so small that values
 * of pairs are right to some 1e-3. The answer does not depend on the device. */
bool gconv_svm_lean_fits(const gconv_svm *model);
/* Makes the form of a model that fits. */
gconv_status gconv_svm_lean_make(const gconv_svm *model, gconv_svm_lean *form);
void gconv_svm_lean_free(gconv_svm_lean *form);

/* Sums of `count` pixels become classes[i], or probabilities[i * class_count ...]; either may be NULL. `values` has room for
 * count x pairs numbers. */
gconv_status gconv_svm_lean_decide(const gconv_svm *model, const double *sums, size_t pitch, size_t count, double *values,
                                   int32_t *classes, double *probabilities);

/* Planes that are `plane` floats apart: the probabilities, or 1 for the class and 0 for others. */
void gconv_svm_put_planes(const gconv_svm *model, const int32_t *classes, const double *probabilities, size_t count,
                          float *to, size_t plane);

/* Makes planes NaN at pixels of which a column is NaN or infinite: they have no class. */
void gconv_svm_clear_planes(const gconv_svm *model, const float *from, size_t from_plane, size_t count, float *to,
                            size_t plane);

/* Bytes of the memory that one thread needs for `count` pixels at a time, and their planes: column c of pixel i is at
 * from[c * from_plane + i]. */
size_t gconv_svm_lean_bytes(const gconv_svm *model, size_t count);
gconv_status gconv_svm_lean_make_planes(const gconv_svm *model, const gconv_svm_lean *form, const float *from,
                                        size_t from_plane, size_t count, void *memory, float *to, size_t plane);

#ifdef GCONV_WITH_CUDA
/* The same of pixels in memory of a GPU (pixels_cuda.cu). One thread at a time. */
typedef struct gconv_svm_there gconv_svm_there;

/* The model and the form must outlive it. */
gconv_status gconv_svm_there_create(gconv_device *device, const gconv_svm *model, const gconv_svm_lean *form,
                                    gconv_svm_there **there);
/* NULL is allowed. */
void gconv_svm_there_free(gconv_svm_there *there);
/* Of all rows of `in`, planes in memory of the device, without gaps between rows. *out becomes an image there, valid until
 * the next call. */
gconv_status gconv_svm_there_make(gconv_svm_there *there, const gconv_image *in, gconv_image *out, gconv_timings *timings);
#endif

#ifdef __cplusplus
}
#endif
#endif
