/* SPDX-License-Identifier: MIT */
/* Types and functions that the files of deconvolution share. */
#pragma once

#include "base/threads.h"
#include "gconv_science.h"
#include "kernels/cpu/fft_columns.h"

GCONV_C_BEGIN

/* A point spread function. Its sum is 1. Negative taps are kept for Wiener's filter alone. */
typedef struct gconv_psf {
  int32_t size[3], centre[3]; /* planes, rows, columns */
  float *taps, *turned;       /* owned: [planes][rows][columns]; the taps mirrored along all three axes */
} gconv_psf;

/* A frame, or a volume, whose frames are planes: interleaved colours as floats, without alpha. Missing samples are NaN. */
typedef struct gconv_restored {
  gconv_device *device;
  const gconv_psf *psf;
  const gconv_deconvolve_options *options;
  int32_t frame, size[3], channels; /* the first frame; planes, rows, columns */
  float *samples;                   /* [planes][rows][columns][channels]: the image, and then the result */
  gconv_deconvolved *done;
  bool stopped; /* report() returned false */
} gconv_restored;

/* Restore a frame, or a volume, in place. */
gconv_status gconv_restore_richardson_lucy(gconv_restored *r);
gconv_status gconv_restore_wiener(gconv_restored *r);

/* ---- Wiener, on each device ---- */

/* A sample of the extended image, along one axis: two samples of the image, and the weight of the second one. The weight of
 * the first is 1 - share. */
typedef struct gconv_wiener_place {
  int32_t at[2];
  float share;
} gconv_wiener_place;

typedef struct gconv_wiener {
  const gconv_restored *r;
  const size_t *least;           /* the least size of spectra: planes, rows, columns */
  gconv_wiener_place *places[3]; /* along z, y, x, of the spectra's sizes */
  const float *means;            /* of colours */
  float noise;
} gconv_wiener;

gconv_status gconv_wiener_cpu(const gconv_wiener *w);
#ifdef GCONV_WITH_CUDA
gconv_status gconv_wiener_cuda(const gconv_wiener *w);
#endif

/* ---- spectra.c ---- */

typedef enum gconv_spectra_way {
  GCONV_SPECTRA_TIMES,           /* a convolution with the taps */
  GCONV_SPECTRA_TIMES_CONJUGATE, /* a correlation */
  GCONV_SPECTRA_WIENER,
  GCONV_SPECTRA_MAKE /* no product: the points become the spectrum of the taps */
} gconv_spectra_way;

/* The spectrum of taps, and memory for spectra of images. */
typedef struct gconv_spectra {
  gconv_fft_mixed along[3];  /* z, y, x */
  size_t pitch, part, plane; /* floats from a row to the next, from real to imaginary parts, from a plane to the next */
  float *points, *psf;       /* owned; psf: [z][y / 16][x][part][16] */
  float *rooms;              /* owned: [threads][x][part][16] */
  gconv_threads *threads;
} gconv_spectra;

/* How the points are loaded and stored. load() gets a row of zeros. Parts 0 and 1 are independent images. Several threads
 * call load() and store(), for different rows. */
typedef struct gconv_spectra_use {
  void (*load)(void *user, size_t z, size_t y, size_t part, float *row);
  void (*store)(void *user, size_t z, size_t y, size_t part, const float *row);
  void *user;
} gconv_spectra_use;

/* Makes the spectrum of `taps`, whose centre lies at the origin. Its size is at least `least`. On failure *s is empty. */
gconv_status gconv_spectra_make(const size_t least[3], const float *taps, const int32_t size[3], const int32_t centre[3],
                                gconv_threads *threads, gconv_spectra *s);
/* Multiplies the spectra of both parts. `noise` is for GCONV_SPECTRA_WIENER. */
void gconv_spectra_run(const gconv_spectra *s, const gconv_spectra_use *use, gconv_spectra_way way, float noise);
/* Steps of gconv_spectra_run(). gconv_spectra_along_z() transforms rows y of all planes and parts along z, in place.
 * gconv_spectra_multiply() transforms planes along y and x, multiplies them, and transforms them back. */
void gconv_spectra_along_z(const gconv_spectra *s, size_t y, bool forward);
void gconv_spectra_multiply(const gconv_spectra *s, gconv_spectra_way way, float noise);
void gconv_spectra_free(gconv_spectra *s);

GCONV_C_END
