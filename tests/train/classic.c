/* SPDX-License-Identifier: MIT */
/* Backpropagation in float32, one loop for each index, in the order of the exact family. */
#include "classic.h"
#include "kernels/learn_math.h"
#include "kernels/mean.h"

#define REAL float
#define MULTIPLY_ADD(a, b, c) fmaf(a, b, c)
#define ENTRY gconv_learn_classic

static float activate(const gconv_layer_problem *l, float v) {
  return gconv_activated(l->activation, l->slope, v);
}
static float derivative(const gconv_layer_problem *l, float y, float dy) {
  return gconv_learn_slope(l->activation, l->slope, y, dy);
}
static float exponential(float v) {
  return gconv_exp_negative(v);
}
static float mean(const float *samples, int64_t count) {
  return gconv_mean(samples, count);
}
static double cross_entropy(float y) {
  return gconv_learn_cross_entropy(y);
}

#include "classic_template.h"
