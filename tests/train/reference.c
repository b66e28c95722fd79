/* SPDX-License-Identifier: MIT */
/* Backpropagation in float64: what engines are compared with. */
#include "classic.h"

#include <math.h>

#define REAL double
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define ENTRY gconv_learn_reference

static double activate(const gconv_layer_problem *l, double v) {
  switch (l->activation) {
  case GCONV_ACTIVATION_RELU:
    return v < 0 ? 0 : v;
  case GCONV_ACTIVATION_LEAKY:
    return v < 0 ? v * (double)l->slope : v;
  case GCONV_ACTIVATION_SIGMOID:
    return 1 / (1 + exp(-(double)l->slope * v));
  case GCONV_ACTIVATION_TANH:
    return tanh(v);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return v;
}

static double derivative(const gconv_layer_problem *l, double y, double dy) {
  switch (l->activation) {
  case GCONV_ACTIVATION_RELU:
    return y > 0 ? dy : 0;
  case GCONV_ACTIVATION_LEAKY:
    return y < 0 ? dy * (double)l->slope : dy;
  case GCONV_ACTIVATION_SIGMOID:
    return dy * (double)l->slope * y * (1 - y);
  case GCONV_ACTIVATION_TANH:
    return dy * (1 - y * y);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_SOFTMAX:
    break;
  }
  return dy;
}

static double exponential(double v) {
  return exp(v);
}
static double mean(const double *samples, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += samples[i];
  return sum / (double)count;
}
static double cross_entropy(double y) {
  return -log(y);
}

#include "classic_template.h"
