/* SPDX-License-Identifier: MIT */
#include "elements.h"
#include "base/cpu.h"
#include "kernels/learn_math.h"

#include <string.h>

enum { BLOCK = 256 }; /* numbers of a row that go through softmax at a time */

/* ---- Activations ---- */

/* A loop for each activation, as a choice within the loop would keep it from becoming vector code. */
#define ACTIVATE(name, activation)                                                                                          \
  GCONV_INLINE void name##_body(const float *from, float bias, float slope, int64_t count, float *to) {                     \
    for (int64_t i = 0; i < count; i++)                                                                                     \
      to[i] = gconv_learn_activate(activation, slope, from[i] + bias);                                                      \
  }                                                                                                                         \
  GCONV_VECTORIZED(name, (const float *from, float bias, float slope, int64_t count, float *to),                            \
                   (from, bias, slope, count, to))
ACTIVATE(activate_none, GCONV_ACTIVATION_NONE)
ACTIVATE(activate_relu, GCONV_ACTIVATION_RELU)
ACTIVATE(activate_leaky, GCONV_ACTIVATION_LEAKY)
ACTIVATE(activate_sigmoid, GCONV_ACTIVATION_SIGMOID)
ACTIVATE(activate_tanh, GCONV_ACTIVATION_TANH)

void gconv_learn_activate_row(const gconv_layer_problem *problem, const float *from, float bias, int64_t count, float *to) {
  static void (*const rows[])(const float *, float, float, int64_t, float *) = {
      activate_none, activate_relu, activate_leaky, activate_sigmoid, activate_tanh, activate_none};
  rows[problem->activation](from, bias, problem->slope, count, to);
}

GCONV_INLINE void softmax_body(float *y, int64_t pitch, int64_t filters, int64_t count) {
  float largest[BLOCK], sum[BLOCK];
  for (int64_t i = 0; i < count; i++) {
    largest[i] = y[i];
    sum[i] = 0;
  }
  for (int64_t k = 1; k < filters; k++)
    for (int64_t i = 0; i < count; i++)
      largest[i] = y[k * pitch + i] > largest[i] ? y[k * pitch + i] : largest[i];
  for (int64_t k = 0; k < filters; k++) {
    float *restrict row = y + k * pitch;
    for (int64_t i = 0; i < count; i++) {
      row[i] = gconv_exp_negative(row[i] - largest[i]);
      sum[i] += row[i];
    }
  }
  for (int64_t k = 0; k < filters; k++)
    for (int64_t i = 0; i < count; i++)
      y[k * pitch + i] /= sum[i];
}
GCONV_VECTORIZED(softmax, (float *y, int64_t pitch, int64_t filters, int64_t count), (y, pitch, filters, count))

void gconv_learn_softmax_rows(float *y, int64_t pitch, int64_t filters, int64_t count) {
  for (int64_t i = 0; i < count; i += BLOCK)
    softmax(y + i, pitch, filters, count - i < BLOCK ? count - i : BLOCK);
}

/* ---- Derivatives ---- */

#define DIFFERENTIATE(name, activation)                                                                                     \
  GCONV_INLINE void name##_body(const float *y, float *dy, float slope, int64_t count) {                                    \
    for (int64_t i = 0; i < count; i++)                                                                                     \
      dy[i] = gconv_learn_slope(activation, slope, y[i], dy[i] + 0.0f);                                                     \
  }                                                                                                                         \
  GCONV_VECTORIZED(name, (const float *y, float *dy, float slope, int64_t count), (y, dy, slope, count))
DIFFERENTIATE(differentiate_none, GCONV_ACTIVATION_NONE)
DIFFERENTIATE(differentiate_relu, GCONV_ACTIVATION_RELU)
DIFFERENTIATE(differentiate_leaky, GCONV_ACTIVATION_LEAKY)
DIFFERENTIATE(differentiate_sigmoid, GCONV_ACTIVATION_SIGMOID)
DIFFERENTIATE(differentiate_tanh, GCONV_ACTIVATION_TANH)

GCONV_INLINE void differentiate_softmax_body(const float *y, float *dy, int64_t pitch, int64_t filters, int64_t count) {
  float sum[BLOCK] = {0};
  for (int64_t k = 0; k < filters; k++)
    for (int64_t i = 0; i < count; i++)
      sum[i] = fmaf(dy[k * pitch + i], y[k * pitch + i], sum[i]);
  for (int64_t k = 0; k < filters; k++)
    for (int64_t i = 0; i < count; i++)
      dy[k * pitch + i] = y[k * pitch + i] * (dy[k * pitch + i] - sum[i]);
}
GCONV_VECTORIZED(differentiate_softmax, (const float *y, float *dy, int64_t pitch, int64_t filters, int64_t count),
                 (y, dy, pitch, filters, count))

void gconv_learn_differentiate_rows(const gconv_layer_problem *problem, const float *y, float *dy, int64_t pitch,
                                    int64_t filters, int64_t count) {
  static void (*const rows[])(const float *, float *, float, int64_t) = {
      differentiate_none, differentiate_relu, differentiate_leaky, differentiate_sigmoid, differentiate_tanh};
  if (problem->activation == GCONV_ACTIVATION_SOFTMAX)
    for (int64_t i = 0; i < count; i += BLOCK)
      differentiate_softmax(y + i, dy + i, pitch, filters, count - i < BLOCK ? count - i : BLOCK);
  else if (pitch == count)
    rows[problem->activation](y, dy, problem->slope, filters * count);
  else
    for (int64_t k = 0; k < filters; k++)
      rows[problem->activation](y + k * pitch, dy + k * pitch, problem->slope, count);
}

/* ---- Sums ---- */

GCONV_INLINE void normalize_body(float *x, size_t count, float mean, float std) {
  for (size_t i = 0; i < count; i++)
    x[i] = (x[i] - mean) / std;
}
GCONV_VECTORIZED(normalize, (float *x, size_t count, float mean, float std), (x, count, mean, std))

void gconv_learn_normalize(float *x, size_t count, float mean, float std) {
  normalize(x, count, mean, std);
}

GCONV_INLINE void normalize_each_body(float *x, size_t count, const float *mean, const float *std) {
  for (size_t i = 0; i < count; i++)
    x[i] = (x[i] - mean[i]) / std[i];
}
GCONV_VECTORIZED(normalize_each, (float *x, size_t count, const float *mean, const float *std), (x, count, mean, std))

void gconv_learn_normalize_each(float *x, size_t count, const float *mean, const float *std) {
  normalize_each(x, count, mean, std);
}

void gconv_learn_mean_rows(const float *x, int64_t rows, int64_t count, float *y) {
  for (int64_t c = 0; c < rows; c++, x += count) {
    float sum = 0;
    for (int64_t i = 0; i < count; i++)
      sum += x[i];
    y[c] = sum / (float)count;
  }
}

void gconv_learn_sum(const float *first, const float *second, size_t count, float *to) {
  for (size_t i = 0; i < count; i++)
    to[i] = first[i] + second[i];
}

GCONV_INLINE void sum_rows_body(const float *g, int64_t count, int64_t pitch, float *restrict sums) {
  memset(sums, 0, (size_t)pitch * sizeof *sums);
  for (int64_t m = 0; m < count; m++)
    for (int64_t k = 0; k < pitch; k++)
      sums[k] += g[m * pitch + k];
}
GCONV_VECTORIZED(sum_rows, (const float *g, int64_t count, int64_t pitch, float *restrict sums), (g, count, pitch, sums))

void gconv_learn_sum_rows(const float *g, int64_t count, int64_t pitch, float *sums) {
  sum_rows(g, count, pitch, sums);
}

GCONV_INLINE void add_body(const float *first, float *second, size_t count) {
  for (size_t i = 0; i < count; i++)
    second[i] = first[i] + second[i];
}
GCONV_VECTORIZED(add, (const float *first, float *second, size_t count), (first, second, count))

void gconv_learn_add(const float *first, float *second, size_t count) {
  add(first, second, count);
}

/* ---- Losses ---- */

/* Where targets are: of output i and case n. */
typedef struct targets_of {
  const float *values;
  bool classes;
  int64_t outputs;
} targets_of;

GCONV_INLINE float target_at(const targets_of *t, int64_t i, int64_t n) {
  return t->classes ? (t->values[n] == (float)i ? 1.0f : 0.0f) : t->values[n * t->outputs + i];
}

GCONV_INLINE void differences_body(targets_of t, const float *y, int64_t pitch, int64_t cases, gconv_loss loss, float factor,
                                   double *losses, float *dy) {
  for (int64_t i = 0; i < t.outputs; i++)
    for (int64_t n = 0; n < cases; n++) {
      float target = target_at(&t, i, n), d = y[i * pitch + n] - target;
      double exact = (double)y[i * pitch + n] - (double)target;
      if (loss != GCONV_LOSS_CROSS_ENTROPY)
        losses[n] += loss == GCONV_LOSS_MAE ? fabs(exact) : exact * exact;
      if (dy && loss == GCONV_LOSS_MAE)
        dy[i * pitch + n] = d > 0 ? factor : d < 0 ? -factor : 0.0f;
      else if (dy)
        dy[i * pitch + n] = loss == GCONV_LOSS_SSE ? d : d * factor;
    }
}
GCONV_VECTORIZED(differences,
                 (targets_of t, const float *y, int64_t pitch, int64_t cases, gconv_loss loss, float factor, double *losses,
                  float *dy),
                 (t, y, pitch, cases, loss, factor, losses, dy))

/* How many cases have their largest output, the first of equals, where their class is. */
static size_t count_hits(const float *y, int64_t pitch, int64_t outputs, const float *classes, int64_t cases) {
  size_t hits = 0;
  for (int64_t n = 0; n < cases; n++) {
    int64_t wanted = (int64_t)classes[n], i = 0;
    float own = y[wanted * pitch + n];
    while (i < outputs && (i < wanted ? y[i * pitch + n] < own : y[i * pitch + n] <= own))
      i++;
    hits += i == outputs;
  }
  return hits;
}

size_t gconv_learn_losses(const gconv_learn_net *net, const float *y, int64_t pitch, const float *targets, int64_t cases,
                          float factor, double *losses, float *dy) {
  targets_of t = {targets, net->classes, (int64_t)gconv_learn_outputs(net)};
  memset(losses, 0, (size_t)cases * sizeof *losses);
  if (dy || net->loss != GCONV_LOSS_CROSS_ENTROPY)
    differences(t, y, pitch, cases, net->loss, factor, losses, dy);
  for (int64_t n = 0; net->loss == GCONV_LOSS_CROSS_ENTROPY && n < cases; n++)
    losses[n] = gconv_learn_cross_entropy(y[(int64_t)targets[n] * pitch + n]);
  return net->classes ? count_hits(y, pitch, t.outputs, targets, cases) : 0;
}
