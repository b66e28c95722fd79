/* SPDX-License-Identifier: MIT */
/*
 * Compares rows of two images: sums of differences, and similarity.
 *
 * SSIM is as defined by Wang, Bovik, Sheikh and Simoncelli (2004), in the form of scikit-image's structural_similarity():
 * means, variances and the covariance of uniform windows of 7 x 7 samples that lie inside the image, of each channel by
 * itself, with the divisor 48 of samples in place of 49; K1 is 0.01, K2 0.03.
 */
#pragma once

#include "gconv.h"

enum { GCONV_SSIM_WINDOW = 7 }; /* rows and columns */

/* The sums of a row, in units of its values. */
typedef struct gconv_row_sums {
  double absolute, squares, largest, similarity;
  uint64_t differing;
  int32_t at; /* the first sample with the largest difference; only set if this is more than `known` */
} gconv_row_sums;

/* Converts the samples of a row to `values`: to levels if white is 255 or 65535, to fractions of white if it is 1. */
void gconv_compare_load(gconv_type type, const void *row, double white, float *values, size_t samples);

/* Fills *row, except for `similarity`. `known`: the largest difference so far. row->at is only set for a larger one. */
void gconv_compare_row(const float *a, const float *b, size_t count, double known, gconv_row_sums *row);

/* Returns the sum of SSIM over the windows whose last rows are a[GCONV_SSIM_WINDOW - 1] and b[GCONV_SSIM_WINDOW - 1].
 * `step`: distance of samples of the same channel. `room` has place for gconv_similarity_room(step) numbers. */
double gconv_compare_similarity(const float *const *a, const float *const *b, size_t samples, size_t step, double white,
                                double *room);
size_t gconv_similarity_room(size_t step);

/* Draws a row of the picture of differences, which shows the largest difference of each pixel's channels. No difference is
 * 0, and one level is 32. From there on, each doubling adds the same, up to 255 for a difference of white. One level is
 * 1/255, or 1/65535 if samples are finer. */
void gconv_compare_draw_row(const float *a, const float *b, size_t pixels, size_t channels, double white, uint8_t *out);
