/* SPDX-License-Identifier: MIT */
/* Activations, compiled for host and device from one text and without contraction, so that the exact family keeps its bits.
 * exp() is our own, because the libraries of host and device round differently. */
#pragma once

#include "kernels/layer_problem.h"

#include <math.h>
#include <string.h>

/* Returns 2^n for -126 <= n <= 127. */
GCONV_BOTH float gconv_power_of_two(int32_t n) {
  int32_t bits = (int32_t)((uint32_t)(n + 127) << 23);
  float power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/* Returns e^x for x <= 0, with a relative error below 2^-22. x = n ln 2 + f with |f| <= ln 2 / 2 (Cody and Waite, in two
 * parts). e^f is the Taylor polynomial of degree 7, whose remainder is below (ln 2 / 2)^8 / 8! = 5e-9. Below -87 the result
 * is 0: so it is never denormal, and the product with 2^n is exact. There is no branch, so that loops become vector code. */
GCONV_BOTH float gconv_exp_negative(float x) {
  float inside = x > -87.0f ? x : 0.0f;
#ifdef __CUDA_ARCH__ /* equal numbers without conversions, which are slow on a GPU */
  float shifted = inside * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f; /* 1.5 * 2^23: n is in the last bits */
  float power = __uint_as_float((__float_as_uint(shifted) << 23) + 0x3f800000u);
#else
  float n = rintf(inside * 1.44269504f);
  float power = gconv_power_of_two((int32_t)n);
#endif
  float f = fmaf(n, -0.693359375f, inside);
  f = fmaf(n, 2.12194440e-4f, f);
  float e = 1.0f / 5040;
  e = fmaf(e, f, 1.0f / 720);
  e = fmaf(e, f, 1.0f / 120);
  e = fmaf(e, f, 1.0f / 24);
  e = fmaf(e, f, 1.0f / 6);
  e = fmaf(e, f, 0.5f);
  e = fmaf(e, f, 1.0f);
  e = fmaf(e, f, 1.0f);
  e *= power;
  float outside = x != x ? x : 0.0f;
  return x > -87.0f ? e : outside;
}

/* Returns a / b, rounded to nearest, or NaN if a or b is NaN. b must be from 1 to 2^60, and a must be 0 or from 2^-60 to 1;
 * if b is 1, a may be any number from 0 to 1. A GPU's own division has these instructions, too, but also a branch for other
 * numbers. Without the branch, a GPU computes several quotients at a time. */
GCONV_BOTH float gconv_quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
  r = fmaf(r, fmaf(-b, r, 1.0f), r);
  float q = a * r;
  return fmaf(r, fmaf(-b, q, a), q);
#else
  return a / b;
#endif
}

/* Returns 1 / (1 + e^-v). Where e is below 2^-60, 1 + e is 1, so that gconv_quotient() allows any e. */
GCONV_BOTH float gconv_sigmoid(float v) {
  float e = gconv_exp_negative(-fabsf(v));
  return gconv_quotient(v < 0 ? e : 1.0f, 1.0f + e);
}

/* Returns tanh(v). Near 0, where 1 - e would cancel, it uses the odd series v - v^3/3 + 2v^5/15 - 17v^7/315 ..., which is
 * good to 2^-24 for |v| < 0.25. */
GCONV_BOTH float gconv_tanh(float v) {
  float a = fabsf(v);
  float s = v * v, t = fmaf(s, 62.0f / 2835, -17.0f / 315);
  t = fmaf(t, s, 2.0f / 15);
  t = fmaf(t, s, -1.0f / 3);
  t = fmaf(v * s, t, v);
  float e = gconv_exp_negative(-2.0f * a);
  e = copysignf(gconv_quotient(1.0f - e, 1.0f + e), v);
  return a >= 0.25f ? e : t;
}

/* Softmax adds the exponentials of this many outputs in float32, and these partial sums in float64. A chain of 100,000
 * additions in float32 may be off by 0.1%. */
enum { GCONV_SOFTMAX_PART = 256 };

/* Replaces `count` values, which are `distance` apart, by their softmax: e^(v - largest), divided by the sum of all these
 * exponentials, added in order. If one value is NaN or +infinity, or all are -infinity, all results are NaN. Algorithms do
 * not compute softmax, because it needs the sums of all filters at a place. It is a pass after the layer. */
GCONV_BOTH void gconv_softmax(float *values, int32_t count, int64_t distance) {
  float largest = values[0];
  double parts = 0;
  for (int32_t k = 1; k < count; k++)
    largest = values[k * distance] > largest ? values[k * distance] : largest;
  for (int32_t first = 0; first < count; first += GCONV_SOFTMAX_PART) {
    float part = 0;
    for (int32_t k = first; k < count && k < first + GCONV_SOFTMAX_PART; k++) {
      float e = gconv_exp_negative(values[k * distance] - largest);
      values[k * distance] = e;
      part += e;
    }
    parts += (double)part;
  }
  const float sum = (float)parts;
  for (int32_t k = 0; k < count; k++)
    values[k * distance] /= sum;
}

/* Returns the activation of a sum. For softmax, which is a pass of its own, returns the sum itself. Only leaky and sigmoid
 * use `slope`. NaN stays NaN. */
GCONV_BOTH float gconv_activated(gconv_activation activation, float slope, float v) {
  switch (activation) {
  case GCONV_ACTIVATION_RELU:
    return v < 0 ? 0.0f : v;
  case GCONV_ACTIVATION_LEAKY:
    return v < 0 ? v * slope : v;
  case GCONV_ACTIVATION_SIGMOID:
    return gconv_sigmoid(v * slope);
  case GCONV_ACTIVATION_TANH:
    return gconv_tanh(v);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return v;
}

/* Applies a layer's activation to sum + bias. */
GCONV_BOTH float gconv_activate(const gconv_layer_problem *problem, float v) {
  return gconv_activated(problem->activation, problem->slope, v);
}
