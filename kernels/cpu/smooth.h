/* SPDX-License-Identifier: MIT */
/* Computes one direction of separable filters that are symmetric or antisymmetric: Gaussians and their derivatives. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
  GCONV_SMOOTH_ORDERS = 3, /* the Gaussian, and its first and second derivative */
  GCONV_SMOOTH_WIDTH = 32  /* outputs of a row are computed in multiples of this number */
};

/* Up to three filters of one radius that are applied to the same samples. Sample x of row y is at in[y * in_pitch + x], and
 * its neighbours are `step` floats apart: 1 along a row, in_pitch along a column. taps[d] has radius + 1 taps, from the
 * middle one outwards. If m is the current sample, and s[k] lies k steps after it, the sums are:
 *
 *     order 0:  m + (0, then, for k from 1 on, fmaf(taps[k], (s[k] + s[-k]) - 2 m, sum))
 *     order 1:  0, then, for k from 1 on, fmaf(taps[k], s[k] - s[-k], sum)
 *     order 2:  0, then, for k from 1 on, fmaf(taps[k], (s[k] + s[-k]) - 2 m, sum)
 *
 * All taps of order 0 must add up to 1, and those of order 2 to 0: then the middle tap follows from the others, and is not
 * used. Differences from m are added, not samples. So equal samples yield exactly this sample in order 0 and exactly 0 in
 * the other orders, and rounding is in proportion to the differences. Otherwise, it would grow with the size of the filter.
 * The bits are the same for any kind of vector. `width` is rounded up to a multiple of GCONV_SMOOTH_WIDTH. The further
 * samples and outputs must exist, whatever their values are. An order whose out[] is NULL is left out. */
typedef struct gconv_smoothing {
  const float *in;
  size_t in_pitch, step;
  int32_t radius;
  const float *taps[GCONV_SMOOTH_ORDERS];
  float *out[GCONV_SMOOTH_ORDERS];
  size_t out_pitch, rows, width;
} gconv_smoothing;

void gconv_smooth(const gconv_smoothing *smoothing);
