/* SPDX-License-Identifier: MIT */
/* What is done to each number of a row: activations, their derivatives, losses. Rows are `pitch` floats apart. */
#ifndef GCONV_KERNELS_CPU_TRAIN_ELEMENTS_H
#define GCONV_KERNELS_CPU_TRAIN_ELEMENTS_H

#include "kernels/learn_problem.h"

/* Some rows, and the distance from one to the next. */
typedef struct gconv_learn_rows {
  int64_t rows, count; /* of `count` numbers each */
  int64_t y, from, to; /* distances of three arrays */
} gconv_learn_rows;

/* to[i] = activation(from[i] + bias); of softmax, the sum alone. `to` may be `from`. */
void gconv_learn_activate_rows(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *from,
                               float bias, float *to);

/* dy becomes the gradient of the sums, in place. */
void gconv_learn_differentiate_rows(const gconv_layer_problem *problem, const float *y, float *dy, int64_t pitch,
                                    int64_t filters, int64_t count);

/* The same from one array to another, but for softmax. NULL in the place of the problem: to[i] = from[i] + 0.0f, so that
 * zeros lose their sign. */
void gconv_learn_differentiate_to(const gconv_layer_problem *problem, const gconv_learn_rows *rows, const float *y,
                                  const float *from, float *to);

/* x[i] = (x[i] - mean) / std */
void gconv_learn_normalize(float *x, size_t count, float mean, float std);

/* The same of numbers with a mean and a standard deviation each. */
void gconv_learn_normalize_each(float *x, size_t count, const float *mean, const float *std);

/* y[c] = the mean of row c, of `count` numbers. */
void gconv_learn_mean_rows(const float *x, int64_t rows, int64_t count, float *y);

/* to[i] = first[i] + second[i] */
void gconv_learn_sum(const float *first, const float *second, size_t count, float *to);

/* sums[k] = the chain over m of g[m * pitch + k], for k < pitch. */
void gconv_learn_sum_rows(const float *g, int64_t count, int64_t pitch, float *sums);

/* second[i] = first[i] + second[i] */
void gconv_learn_add(const float *first, float *second, size_t count);

/* The losses of up to GCONV_LEARN_SLICE cases, of which output i of case n is y[i * pitch + n]: losses[n], not yet
 * multiplied by gconv_learn_loss_factor(); returns how many were given their class. Where dy is not NULL it gets the
 * gradient, laid out as y; of cross-entropy, that of the sums. */
size_t gconv_learn_losses(const gconv_learn_net *net, const float *y, int64_t pitch, const float *targets, int64_t cases,
                          float factor, double *losses, float *dy);

#endif
