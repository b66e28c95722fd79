/* SPDX-License-Identifier: MIT */
/* The arithmetic of training, compiled for host and device from one text and without contraction, so that the exact family
 * keeps its bits. */
#pragma once

#include "kernels/activation.h"
#include "kernels/learn_problem.h"

#include <float.h>

/* Returns the gradient of a sum: dy, the gradient of its output, times the derivative of the activation. The derivative
 * follows from y, the output. Leaky needs a slope above 0. */
GCONV_BOTH float gconv_learn_slope(gconv_activation activation, float slope, float y, float dy) {
  switch (activation) {
  case GCONV_ACTIVATION_RELU:
    return y > 0 ? dy : 0.0f;
  case GCONV_ACTIVATION_LEAKY:
    return y < 0 ? dy * slope : dy;
  case GCONV_ACTIVATION_SIGMOID:
    return dy * (y * (1.0f - y) * slope);
  case GCONV_ACTIVATION_TANH:
    return dy * fmaf(-y, y, 1.0f);
  case GCONV_ACTIVATION_NONE:
  case GCONV_ACTIVATION_SOFTMAX: /* a pass of its own */
    break;
  }
  return dy;
}

/* Returns the natural logarithm of y >= 2^-126, in float64 and with an error of a few units in the last place. y = 2^n m
 * with m from sqrt(1/2) to sqrt(2); log m = 2 atanh((m - 1) / (m + 1)), whose series ends where terms are below 2^-60. */
GCONV_BOTH double gconv_learn_log(double y) {
  int n = 0;
  double m = frexp(y, &n);
  if (m < 0.70710678118654752) {
    m = m * 2.0;
    n--;
  }
  double u = (m - 1.0) / (m + 1.0), s = u * u, sum = 0;
  for (int k = 23; k >= 1; k -= 2)
    sum = sum * s + 1.0 / k;
  return (double)n * 0.69314718055994531 + 2.0 * u * sum;
}

/* Returns the cross-entropy of a case from y, the output of its class. If y is below 2^-126, 2^-126 takes its place. */
GCONV_BOTH double gconv_learn_cross_entropy(float y) {
  return y >= FLT_MIN || y != y ? -gconv_learn_log((double)y) : 87.336544750553102;
}

/* d is an output minus its target. gconv_learn_loss_term() returns the output's term of the loss: for cross-entropy, 0.
 * gconv_learn_loss_gradient() returns the gradient of the output: for cross-entropy, of the sum before softmax. `factor` is
 * gconv_learn_factor(). */
GCONV_BOTH double gconv_learn_loss_term(gconv_loss loss, double d) {
  switch (loss) {
  case GCONV_LOSS_SSE:
  case GCONV_LOSS_MSE:
    return d * d;
  case GCONV_LOSS_MAE:
    return fabs(d);
  case GCONV_LOSS_CROSS_ENTROPY:
  case GCONV_LOSS_DEFAULT: /* which is resolved before */
    break;
  }
  return 0;
}
GCONV_BOTH float gconv_learn_loss_gradient(gconv_loss loss, float d, float factor) {
  switch (loss) {
  case GCONV_LOSS_SSE:
    return d;
  case GCONV_LOSS_MAE:
    return d > 0 ? factor : d < 0 ? -factor : 0.0f;
  case GCONV_LOSS_MSE:
  case GCONV_LOSS_CROSS_ENTROPY:
  case GCONV_LOSS_DEFAULT:
    break;
  }
  return d * factor;
}

/* ---- Optimisers ---- */

/* The numbers of a step, which updates a parameter w by its gradient g and its state, `first` and `second`. The state begins
 * as 0; in rprop, `second` is the size of the step, and begins as the rate. The caller computes these numbers in float64,
 * and rounds them once. */
typedef struct gconv_learn_step {
  gconv_optimizer optimizer;
  float rate;        /* the learning rate; for adam, divided by 1 - beta1^t */
  float momentum;    /* the part of the last step that is kept: for momentum */
  float keep;        /* 1 - rate * weight decay; biases do not use it */
  float elimination; /* weight elimination, 2 * lambda / w0; biases do not use it */
  float scale;       /* 1 / w0 */
  float root;        /* for adam: 1 / sqrt(1 - beta2^t) */
} gconv_learn_step;

#define GCONV_ADAM_BETA1 0.9
#define GCONV_ADAM_BETA2 0.999
#define GCONV_ADAM_EPSILON 1e-8f
#define GCONV_RPROP_LARGEST 50.0f
#define GCONV_RPROP_SMALLEST 1e-6f

GCONV_BOTH void gconv_learn_adam(const gconv_learn_step *step, float g, float *w, float *first, float *second) {
  float m = *first + (float)(1 - GCONV_ADAM_BETA1) * (g - *first);
  float v = (float)GCONV_ADAM_BETA2 * *second + (float)(1 - GCONV_ADAM_BETA2) * (g * g);
  *first = m;
  *second = v;
  *w = *w - step->rate * m / (sqrtf(v) * step->root + GCONV_ADAM_EPSILON);
}

GCONV_BOTH void gconv_learn_momentum(const gconv_learn_step *step, float g, float *w, float *first) {
  *first = step->momentum * *first + g;
  *w = *w - step->rate * *first;
}

GCONV_BOTH void gconv_learn_rprop(float g, float *w, float *first, float *second) {
  float turn = g * *first, size = *second;
  float larger = size * 1.2f, smaller = size * 0.5f;
  larger = larger > GCONV_RPROP_LARGEST ? GCONV_RPROP_LARGEST : larger;
  smaller = smaller < GCONV_RPROP_SMALLEST ? GCONV_RPROP_SMALLEST : smaller;
  size = turn > 0 ? larger : turn < 0 ? smaller : size;
  g = turn < 0 ? 0.0f : g;
  *first = g;
  *second = size;
  *w = g > 0 ? *w - size : g < 0 ? *w + size : *w;
}

/* Updates one parameter; `is_weight` is false for a bias. First the gradient of weight elimination is added, then the weight
 * decays, then the optimiser changes it. */
GCONV_BOTH void gconv_learn_update(const gconv_learn_step *step, bool is_weight, float g, float *w, float *first,
                                   float *second) {
  if (is_weight && step->elimination != 0) {
    float u = *w * step->scale, d = 1.0f + u * u;
    g = g + step->elimination * u / (d * d);
  }
  if (is_weight)
    *w = *w * step->keep;
  switch (step->optimizer) {
  case GCONV_OPTIMIZER_ADAM:
    gconv_learn_adam(step, g, w, first, second);
    break;
  case GCONV_OPTIMIZER_MOMENTUM:
    gconv_learn_momentum(step, g, w, first);
    break;
  case GCONV_OPTIMIZER_RPROP:
    gconv_learn_rprop(g, w, first, second);
    break;
  case GCONV_OPTIMIZER_SGD:
    *w = *w - step->rate * g;
    break;
  }
}
