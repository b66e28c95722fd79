/* SPDX-License-Identifier: MIT */
/* Support vector machines over many pixels: the form of models for kernels/svm_pixels.h, and its prediction from planes. */
#pragma once

#include "base/both.h"
#include "kernels/svm_pixels.h"
#include "svm/svm.h"

GCONV_C_BEGIN

/* A model in float32. Zero-initialise before first use. */
typedef struct gconv_svm_lean {
  gconv_svm_pixels machine; /* machine.columns is 0 if the model does not fit; float64 then predicts */
  float *points, *coefficients;
  uint32_t *begins;
} gconv_svm_lean;

/* True if a model fits float32: it has the RBF kernel, at most 9 classes and 64 columns, and coefficients so small that the
 * values of pairs are accurate to some 1e-3. The answer does not depend on the device. */
bool gconv_svm_lean_fits(const gconv_svm *model);
/* Makes the form of a model. If the model does not fit, *form stays zeros. */
gconv_status gconv_svm_lean_make(const gconv_svm *model, gconv_svm_lean *form);
void gconv_svm_lean_free(gconv_svm_lean *form);

/* Computes classes[i], or probabilities[i * class_count ...], from the sums of `count` pixels; either may be NULL. values: a
 * workspace of count x pairs numbers. */
gconv_status gconv_svm_lean_decide(const gconv_svm *model, const double *sums, size_t pitch, size_t count, double *values,
                                   int32_t *classes, double *probabilities);

/* Writes planes, `plane` floats apart: the probabilities, or 1 for the class of a pixel and 0 for the others. */
void gconv_svm_put_planes(const gconv_svm *model, const int32_t *classes, const double *probabilities, size_t count,
                          float *to, size_t plane);

/* Sets planes to NaN at pixels with a column that is NaN or infinite. Such pixels have no class. */
void gconv_svm_clear_planes(const gconv_svm *model, const float *from, size_t from_plane, size_t count, float *to,
                            size_t plane);

/* Returns the bytes of a thread's workspace for `count` pixels at a time. */
size_t gconv_svm_lean_bytes(const gconv_svm *model, size_t count);
/* Predicts `count` pixels to planes. Column c of pixel i is from[c * from_plane + i]. memory: a workspace. */
gconv_status gconv_svm_lean_make_planes(const gconv_svm *model, const gconv_svm_lean *form, const float *from,
                                        size_t from_plane, size_t count, void *memory, float *to, size_t plane);

#ifdef GCONV_WITH_CUDA
/* A model that predicts pixels in device memory (pixels_cuda.cu). Only one thread may use it at a time. */
typedef struct gconv_svm_there gconv_svm_there;

/* The model and the form must outlive *there. */
gconv_status gconv_svm_there_create(gconv_device *device, const gconv_svm *model, const gconv_svm_lean *form,
                                    gconv_svm_there **there);
/* NULL is allowed. */
void gconv_svm_there_free(gconv_svm_there *there);
/* Predicts all rows of `in`, which are planes in device memory without gaps between rows. *out: an image in device memory,
 * valid until the next call. */
gconv_status gconv_svm_there_make(gconv_svm_there *there, const gconv_image *in, gconv_image *out, gconv_timings *timings);
#endif

GCONV_C_END
