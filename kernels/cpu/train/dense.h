/* SPDX-License-Identifier: MIT */
/* Training of a dense layer on the CPU, a slice of cases at a time. Tensors of a slice are [feature][case], with
 * GCONV_LEARN_PITCH floats from a feature to the next, so that vectors hold neighbouring cases. Weights are laid out as
 * those of a convolution (conv.h): [input][output], outputs padded to whole vectors; then biases. */
#ifndef GCONV_KERNELS_CPU_TRAIN_DENSE_H
#define GCONV_KERNELS_CPU_TRAIN_DENSE_H

#include "kernels/learn_problem.h"
#include "product.h"

/* No power of two, which would put many features into the same lines of the cache. */
enum { GCONV_LEARN_PITCH = GCONV_LEARN_SLICE + 16 };

typedef struct gconv_learn_dense {
  gconv_layer_problem problem;
  int64_t inputs, outputs, padded; /* padded: the outputs, to whole vectors */
  size_t weights, parameters;      /* floats: of the weights; with the biases */
  int64_t *offsets;                /* owned: of the features of a slice, as many as inputs or outputs */
} gconv_learn_dense;

/* Free with gconv_learn_dense_free(), on failure too. */
gconv_status gconv_learn_dense_prepare(const gconv_layer_problem *problem, gconv_learn_dense *dense);
void gconv_learn_dense_free(gconv_learn_dense *dense);

/* Between the layout of gconv_learn_net and this engine's. */
void gconv_learn_dense_take(const gconv_learn_dense *dense, const float *plain, float *own);
void gconv_learn_dense_give(const gconv_learn_dense *dense, const float *own, float *plain);

/* Turns the weights for the gradient of inputs, outputs x inputs: once a step. */
void gconv_learn_dense_turn(const gconv_learn_dense *dense, const float *own, float *panel);

/* The three products, of `cases` cases; y and dx have GCONV_LEARN_SLACK floats behind them that may be overwritten.
 * `turned` is a workspace of cases x padded floats; of weights, dz has room for `padded` features, and those behind the
 * outputs become 0. */
void gconv_learn_dense_forward(const gconv_learn_dense *dense, const float *own, const float *x, int64_t cases, float *y);
void gconv_learn_dense_inputs(const gconv_learn_dense *dense, const float *panel, const float *dz, int64_t cases, float *dx);
void gconv_learn_dense_weights(const gconv_learn_dense *dense, const float *x, float *dz, int64_t cases, float *turned,
                               float *gradient);

#endif
