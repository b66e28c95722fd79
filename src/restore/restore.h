/* SPDX-License-Identifier: MIT */
/* What the files of deconvolution share. */
#pragma once

#include "base/threads.h"
#include "gconv_science.h"

/* A point spread function: not negative unless Wiener takes it, of sum 1. */
typedef struct gconv_psf {
  int32_t rows, columns, row, column; /* its size, and its centre */
  float *taps, *turned;               /* [rows][columns]; turned by 180 degrees; owned */
} gconv_psf;

/* A frame: interleaved colours as floats, without alpha. Missing samples are NaN. */
typedef struct gconv_restored {
  gconv_device *device;
  const gconv_psf *psf;
  const gconv_deconvolve_options *options;
  int32_t frame, height, width, channels;
  float *samples; /* [height][width][channels]: the image, and then the result */
  gconv_deconvolved *told;
  bool stopped; /* report() wants no more */
} gconv_restored;

/* Restore a frame in place. */
gconv_status gconv_restore_richardson_lucy(gconv_restored *r);
gconv_status gconv_restore_wiener(gconv_restored *r);

/* ---- fourier.c ---- */

/* Returns the least product of 2, 3, 5 and 7 that is not below `least`. */
size_t gconv_fourier_size(size_t least);

/* A transform of complex numbers in two dimensions, in float64: re and im of [rows][columns] points, one after the other.
 * rows and columns are products of 2, 3, 5 and 7. Backward, the result is divided by their number. */
gconv_status gconv_fourier(double *points, size_t rows, size_t columns, bool forward, gconv_threads *threads);
