/* SPDX-License-Identifier: MIT */
#include "elements.h"
#include "base/cpu.h"
#include "kernels/learn_math.h"

#include <string.h>

enum { BLOCK = 256 }; /* columns for which softmax is differentiated at a time */

/* ---- Activations ---- */

/* A loop for each activation: a choice within the loop would prevent vector code. */
#define ACTIVATE(name, VALUE)                                                                                               \
  GCONV_VECTOR_LOOP(activate_##name, (const gconv_learn_rows *r, const float *from, float bias, float slope, float *to),    \
                    (r, from, bias, slope, to)) {                                                                           \
    for (int64_t row = 0; row < r->rows; row++, from += r->from, to += r->to)                                               \
      for (int64_t i = 0; i < r->count; i++)                                                                                \
        to[i] = gconv_activated(VALUE, slope, from[i] + bias);                                                              \
  }
GCONV_EACH_ACTIVATION(ACTIVATE)

void gconv_learn_activate_rows(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *from,
                               float bias, float *to) {
#define ROW(name, VALUE) [VALUE] = activate_##name,
  static void (*const functions[])(const gconv_learn_rows *, const float *, float, float,
                                   float *) = {GCONV_EACH_ACTIVATION(ROW)[GCONV_ACTIVATION_SOFTMAX] = activate_none};
#undef ROW
  functions[problem->activation](rows, from, bias, problem->slope, to);
}

/* ---- Derivatives ---- */

#define DIFFERENTIATE(name, VALUE)                                                                                          \
  GCONV_VECTOR_LOOP(differentiate_##name,                                                                                   \
                    (const gconv_learn_rows *r, const float *y, const float *from, float slope, float *to),                 \
                    (r, y, from, slope, to)) {                                                                              \
    for (int64_t row = 0; row < r->rows; row++, y += r->y, from += r->from, to += r->to)                                    \
      for (int64_t i = 0; i < r->count; i++)                                                                                \
        to[i] = gconv_learn_slope(VALUE, slope, y[i], from[i] + 0.0f);                                                      \
  }
GCONV_EACH_ACTIVATION(DIFFERENTIATE)

void gconv_learn_differentiate_to(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *y,
                                  const float *from, float *to) {
#define ROW(name, VALUE) [VALUE] = differentiate_##name,
  static void (*const functions[])(const gconv_learn_rows *, const float *, const float *, float,
                                   float *) = {GCONV_EACH_ACTIVATION(ROW)};
#undef ROW
  if (problem)
    functions[problem->activation](rows, y, from, problem->slope, to);
  else
    differentiate_none(rows, y, from, 1, to);
}

GCONV_VECTOR_LOOP(differentiate_softmax, (const float *y, float *dy, int64_t pitch, int64_t filters, int64_t count),
                  (y, dy, pitch, filters, count)) {
  float part[BLOCK] = {0};
  double sum[BLOCK] = {0};
  for (int64_t k = 0; k < filters; k++) {
    for (int64_t i = 0; i < count; i++)
      part[i] = fmaf(dy[k * pitch + i], y[k * pitch + i], part[i]);
    if ((k + 1) % GCONV_SOFTMAX_PART == 0 || k + 1 == filters)
      for (int64_t i = 0; i < count; i++) {
        sum[i] += (double)part[i];
        part[i] = 0;
      }
  }
  for (int64_t i = 0; i < count; i++)
    part[i] = (float)sum[i];
  for (int64_t k = 0; k < filters; k++)
    for (int64_t i = 0; i < count; i++)
      dy[k * pitch + i] = y[k * pitch + i] * (dy[k * pitch + i] - part[i]);
}

void gconv_learn_differentiate_rows(const gconv_layer_problem *problem, const float *y, float *dy, int64_t pitch,
                                    int64_t filters, int64_t count) {
  const bool dense = pitch == count;
  const gconv_learn_rows rows = {dense ? 1 : filters, dense ? filters * count : count, pitch, pitch, pitch};
  if (problem->activation == GCONV_ACTIVATION_SOFTMAX)
    for (int64_t i = 0; i < count; i += BLOCK)
      differentiate_softmax(y + i, dy + i, pitch, filters, count - i < BLOCK ? count - i : BLOCK);
  else
    gconv_learn_differentiate_to(problem, &rows, y, dy, dy);
}

/* ---- Sums ---- */

GCONV_VECTOR_LOOP(normalize, (float *x, size_t count, float mean, float std), (x, count, mean, std)) {
  for (size_t i = 0; i < count; i++)
    x[i] = (x[i] - mean) / std;
}

void gconv_learn_normalize(float *x, size_t count, float mean, float std) {
  normalize(x, count, mean, std);
}

GCONV_VECTOR_LOOP(normalize_each, (float *x, size_t count, const float *mean, const float *std), (x, count, mean, std)) {
  for (size_t i = 0; i < count; i++)
    x[i] = (x[i] - mean[i]) / std[i];
}

void gconv_learn_normalize_each(float *x, size_t count, const float *mean, const float *std) {
  normalize_each(x, count, mean, std);
}

enum { SUMMED = 16 }; /* sums that stay in registers at a time */

GCONV_VECTOR_LOOP(sum_rows, (const float *g, int64_t count, int64_t pitch, float *restrict sums), (g, count, pitch, sums)) {
  int64_t k = 0;
  for (; k + SUMMED <= pitch; k += SUMMED) {
    float sum[SUMMED] = {0};
    for (int64_t m = 0; m < count; m++)
      for (int i = 0; i < SUMMED; i++)
        sum[i] += g[m * pitch + k + i];
    memcpy(sums + k, sum, sizeof sum);
  }
  memset(sums + k, 0, (size_t)(pitch - k) * sizeof *sums);
  for (int64_t m = 0; m < count && k < pitch; m++)
    for (int64_t i = k; i < pitch; i++)
      sums[i] += g[m * pitch + i];
}

void gconv_learn_sum_rows(const float *g, int64_t count, int64_t pitch, float *sums) {
  sum_rows(g, count, pitch, sums);
}

GCONV_VECTOR_LOOP(add, (const float *first, float *second, size_t count), (first, second, count)) {
  for (size_t i = 0; i < count; i++)
    second[i] = first[i] + second[i];
}

void gconv_learn_add(const float *first, float *second, size_t count) {
  add(first, second, count);
}

/* ---- Losses ---- */

/* Adds the terms of output i to the losses of all cases, and computes its gradients. Targets are `step` apart; if `classes`
 * is true, they are numbers of classes. `loss` and `classes` are constants where this is inlined. */
GCONV_INLINE void output_body(const float *restrict y, const float *restrict targets, int64_t step, float i, int64_t cases,
                              float factor, double *restrict losses, float *restrict dy, gconv_loss loss, bool classes) {
  for (int64_t n = 0; n < cases; n++) {
    float target = classes ? (targets[n] == i ? 1.0f : 0.0f) : targets[n * step], d = y[n] - target;
    double exact = (double)y[n] - (double)target;
    if (loss != GCONV_LOSS_CROSS_ENTROPY)
      losses[n] += gconv_learn_loss_term(loss, exact);
    dy[n] = gconv_learn_loss_gradient(loss, d, factor);
  }
}

#define OUTPUT_PARAMETERS                                                                                                   \
  (const float *restrict y, const float *restrict targets, int64_t step, float i, int64_t cases, float factor,              \
   double *restrict losses, float *restrict dy)
#define OUTPUT_OF(name, loss, classes)                                                                                      \
  GCONV_VECTOR_LOOP(name, OUTPUT_PARAMETERS, (y, targets, step, i, cases, factor, losses, dy)) {                            \
    output_body(y, targets, step, i, cases, factor, losses, dy, loss, classes);                                             \
  }
#define OUTPUT(word, LOSS) OUTPUT_OF(targets_##LOSS, LOSS, false) OUTPUT_OF(classes_##LOSS, LOSS, true)
GCONV_EACH_LOSS(OUTPUT)

typedef void output_function(const float *, const float *, int64_t, float, int64_t, float, double *, float *);
#define OF_TARGETS(word, LOSS) [LOSS] = targets_##LOSS,
#define OF_CLASSES(word, LOSS) [LOSS] = classes_##LOSS,
static output_function *const outputs_of[2][1 + GCONV_LOSSES] = {{GCONV_EACH_LOSS(OF_TARGETS)},
                                                                 {GCONV_EACH_LOSS(OF_CLASSES)}};

/* Marks the cases n whose output i is larger than own[n], the output of their class. An output before the output of the
 * class is also marked if it is equally large. */
GCONV_VECTOR_LOOP(mark,
                  (const float *restrict y, const float *restrict classes, const float *restrict own, float i, int64_t cases,
                   float *restrict missed),
                  (y, classes, own, i, cases, missed)) {
  for (int64_t n = 0; n < cases; n++) {
    bool miss = i < classes[n] ? !(y[n] < own[n]) : i > classes[n] ? !(y[n] <= own[n]) : false;
    missed[n] = miss ? 1.0f : missed[n];
  }
}

/* Returns the number of cases whose largest output (of equal outputs, the first) belongs to their class. There are at most
 * GCONV_LEARN_SLICE cases. */
static size_t count_hits(const float *y, int64_t pitch, int64_t outputs, const float *classes, int64_t cases) {
  float own[GCONV_LEARN_SLICE], missed[GCONV_LEARN_SLICE] = {0};
  size_t hits = 0;
  for (int64_t n = 0; n < cases; n++)
    own[n] = y[(int64_t)classes[n] * pitch + n];
  for (int64_t i = 0; i < outputs; i++)
    mark(y + i * pitch, classes, own, (float)i, cases, missed);
  for (int64_t n = 0; n < cases; n++)
    hits += missed[n] == 0;
  return hits;
}

/* Multiplies the losses and gradients of cases by the weights of their classes. */
static void weigh(const gconv_learn_net *net, int64_t pitch, const float *targets, int64_t cases, double *losses,
                  float *dy) {
  const int64_t outputs = (int64_t)gconv_learn_outputs(net);
  for (int64_t n = 0; n < cases; n++)
    losses[n] *= (double)net->class_weights[(size_t)targets[n]];
  for (int64_t i = 0; dy && i < outputs; i++)
    for (int64_t n = 0; n < cases; n++)
      dy[i * pitch + n] *= net->class_weights[(size_t)targets[n]];
}

size_t gconv_learn_losses(const gconv_learn_net *net, const float *y, int64_t pitch, const float *targets, int64_t cases,
                          float factor, double *losses, float *dy) {
  int64_t outputs = (int64_t)gconv_learn_outputs(net);
  float unused[GCONV_LEARN_SLICE] = {0}; /* takes the gradients if dy is NULL */
  output_function *function = outputs_of[net->classes][net->loss];
  memset(losses, 0, (size_t)cases * sizeof *losses);
  if (!net->classes && cases == 1 && pitch == 1) { /* many outputs of one case: they are neighbours */
    double terms[GCONV_LEARN_SLICE];
    for (int64_t i = 0; i < outputs; i += GCONV_LEARN_SLICE) {
      int64_t count = outputs - i < GCONV_LEARN_SLICE ? outputs - i : GCONV_LEARN_SLICE;
      memset(terms, 0, sizeof terms);
      function(y + i, targets + i, 1, 0, count, factor, terms, dy ? dy + i : unused);
      for (int64_t j = 0; j < count; j++)
        losses[0] += terms[j];
    }
    return 0;
  }
  for (int64_t i = 0; i < outputs && (dy || net->loss != GCONV_LOSS_CROSS_ENTROPY); i++)
    function(y + i * pitch, net->classes ? targets : targets + i, outputs, (float)i, cases, factor, losses,
             dy ? dy + i * pitch : unused);
  for (int64_t n = 0; net->loss == GCONV_LOSS_CROSS_ENTROPY && n < cases; n++)
    losses[n] = gconv_learn_cross_entropy(y[(int64_t)targets[n] * pitch + n]);
  if (net->class_weights)
    weigh(net, pitch, targets, cases, losses, dy);
  return net->classes ? count_hits(y, pitch, outputs, targets, cases) : 0;
}
