/* SPDX-License-Identifier: MIT */
/* Operations on each number of rows: activations, their derivatives, losses, sums. */
#pragma once

#include "kernels/learn_problem.h"

/* Rows of `count` numbers, and the pitch of the arrays y, from and to. */
typedef struct gconv_learn_rows {
  int64_t rows, count;
  int64_t y, from, to; /* floats from a row to the next */
} gconv_learn_rows;

/* Sets to[i] = activation(from[i] + bias); for softmax, from[i] + bias. `to` may be `from`. */
void gconv_learn_activate_rows(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *from,
                               float bias, float *to);

/* Replaces dy, the gradient of outputs y, by the gradient of the sums before the activation. */
void gconv_learn_differentiate_rows(const gconv_layer_problem *problem, const float *y, float *dy, int64_t pitch,
                                    int64_t filters, int64_t count);

/* Reads the gradient of outputs y from `from`, and writes the gradient of the sums to `to`. The activation is not softmax.
 * If `problem` is NULL, sets to[i] = from[i] + 0.0f, so that zeros lose their sign. */
void gconv_learn_differentiate_to(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *y,
                                  const float *from, float *to);

/* Sets x[i] = (x[i] - mean) / std. */
void gconv_learn_normalize(float *x, size_t count, float mean, float std);

/* Sets x[i] = (x[i] - mean[i]) / std[i]. */
void gconv_learn_normalize_each(float *x, size_t count, const float *mean, const float *std);

/* Sets sums[k] to the sum over m < count of g[m * pitch + k] in the order of m, for k < pitch. */
void gconv_learn_sum_rows(const float *g, int64_t count, int64_t pitch, float *sums);

/* Sets second[i] = first[i] + second[i]. */
void gconv_learn_add(const float *first, float *second, size_t count);

/* Sets losses[n] to the loss of case n, without gconv_learn_loss_factor(). Output i of case n is y[i * pitch + n]; there are
 * up to GCONV_LEARN_SLICE cases. Returns the number of cases whose largest output belongs to their class. If dy is not NULL,
 * it gets the gradient of the outputs, or of their sums for cross-entropy, in the layout of y. */
size_t gconv_learn_losses(const gconv_learn_net *net, const float *y, int64_t pitch, const float *targets, int64_t cases,
                          float factor, double *losses, float *dy);
