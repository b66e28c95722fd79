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
 * middle one outwards. If s[k] is the sample that lies k steps after the current one, the sums are:
 *
 *     orders 0 and 2: taps[0] * s[0], then, for k from 1 on, fmaf(taps[k], s[k] + s[-k], sum)
 *     order 1:        0, then, for k from 1 on, fmaf(taps[k], s[k] - s[-k], sum)
 *
 * So the bits are the same for any kind of vector. `width` is rounded up to a multiple of GCONV_SMOOTH_WIDTH. The further
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
