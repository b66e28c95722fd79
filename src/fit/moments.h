/* SPDX-License-Identifier: MIT */
/*
 * Sums of products of the samples under a filter, in float64, for the normal equations of least squares.
 *
 * A window has the n = rows * columns samples under the filter. Least squares need sums over all windows: of x_a * x_b for
 * each pair of taps a, b; of t * x_a, where t is the target of the window; and of x_a.
 *
 * A sum of x_a * x_b is a sum over the image of x(p) * x(p + d), where d is the distance of the two taps. There are n^2 / 2
 * pairs, but only about 2 n distances. The sums of all pairs with the same distance differ only at the rims of the image. So
 * each distance is summed once, for its first pair. The sum of the next pair follows by subtracting products at one rim and
 * adding products at the other. Windows that do not count are subtracted pair by pair.
 *
 * A thread sums all rows for its distances, always in the same order: so results depend neither on the number of threads nor
 * on the width of vectors.
 */
#pragma once

#include "base/memory.h"
#include "base/threads.h"

typedef struct gconv_moments_work gconv_moments_work;

typedef struct gconv_moments {
  int32_t rows, columns;
  size_t taps;      /* rows * columns */
  size_t *place;    /* owned: [rows][2 * columns - 1]: the place of a distance's pairs in `products` */
  double *products; /* owned: [taps * (taps + 1) / 2], by distance */
  double *cross;    /* owned: [taps]: sums of t * x */
  double *sums;     /* owned: [taps]: sums of x */
  double target;    /* the sum of t */
  double squares;   /* sum of t * t */
  uint64_t samples; /* windows that count */
  uint64_t clipped; /* windows that do not count */
  gconv_moments_work *work;
} gconv_moments;

enum { GCONV_MOMENTS_SLACK = 4 }; /* doubles after a row of x that may be read */

/* Windows and their targets. Window (i, k) has its first sample at x + i * x_stride + k. */
typedef struct gconv_windows {
  const double *x; /* height + rows - 1 rows of width + columns - 1 samples, then GCONV_MOMENTS_SLACK more */
  size_t x_stride;
  const double *t;      /* height x width; 0 if a window does not count */
  const double *counts; /* height x width: 1 if a window counts, else 0 */
  size_t t_stride;
  int32_t height, width;
} gconv_windows;

/* Creates sums of 0. */
gconv_status gconv_moments_create(int32_t rows, int32_t columns, gconv_moments **moments);
/* Call it before sums are added by a pool of so many threads. */
gconv_status gconv_moments_prepare(gconv_moments *moments, int seats);
void gconv_moments_reset(gconv_moments *moments);
/* NULL is allowed. */
void gconv_moments_free(gconv_moments *moments);

void gconv_moments_add(gconv_moments *moments, gconv_threads *threads, const gconv_windows *windows);

/* Returns the sum of x_a * x_b, for taps a and b, each row * columns + column. */
double gconv_moments_product(const gconv_moments *moments, size_t a, size_t b);

/* results[k] = the sum over i < count of f[i] * g[k * stride + i], for k = 0 .. 3. */
void gconv_dots(const double *f, const double *g, size_t stride, size_t count, double results[4]);
