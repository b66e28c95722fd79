/* SPDX-License-Identifier: MIT */
/* Operations on each number of a row: activations, their derivatives, losses, sums. Rows are `pitch` floats apart. */
#pragma once

#include "kernels/learn_problem.h"

/* `rows` rows of `count` numbers, and the pitch of each of three arrays. */
typedef struct gconv_learn_rows {
  int64_t rows, count;
  int64_t y, from, to; /* floats from a row to the next */
} gconv_learn_rows;

/* to[i] = activation(from[i] + bias); of softmax, the sum alone. `to` may be `from`. */
void gconv_learn_activate_rows(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *from,
                               float bias, float *to);

/* Replaces dy, the gradient of outputs y, by the gradient of their sums. */
void gconv_learn_differentiate_rows(const gconv_layer_problem *problem, const float *y, float *dy, int64_t pitch,
                                    int64_t filters, int64_t count);

/* The same from one array to another; not for softmax. If `problem` is NULL, to[i] = from[i] + 0.0f, so that zeros lose
 * their sign. */
void gconv_learn_differentiate_to(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *y,
                                  const float *from, float *to);

/* x[i] = (x[i] - mean) / std */
void gconv_learn_normalize(float *x, size_t count, float mean, float std);

/* x[i] = (x[i] - mean[i]) / std[i] */
void gconv_learn_normalize_each(float *x, size_t count, const float *mean, const float *std);

/* sums[k] = the sum over m < count of g[m * pitch + k] in the order of m, for k < pitch. */
void gconv_learn_sum_rows(const float *g, int64_t count, int64_t pitch, float *sums);

/* second[i] = first[i] + second[i] */
void gconv_learn_add(const float *first, float *second, size_t count);

/* losses[n]: the loss of case n, without gconv_learn_loss_factor(). Output i of case n is y[i * pitch + n]; there are up to
 * GCONV_LEARN_SLICE cases. Returns how many cases have their largest output at their class. If dy is not NULL, it gets the
 * gradient of the outputs, or of their sums for cross-entropy, in the layout of y. */
size_t gconv_learn_losses(const gconv_learn_net *net, const float *y, int64_t pitch, const float *targets, int64_t cases,
                          float factor, double *losses, float *dy);
