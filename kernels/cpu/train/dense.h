/* SPDX-License-Identifier: MIT */
/* Training of a dense layer on the CPU, a slice of cases at a time. Tensors of a slice are [feature][case], and a feature
 * has GCONV_LEARN_PITCH floats, so that vectors hold neighbouring cases. Weights are [input][output], with outputs padded to
 * whole vectors; biases follow. */
#pragma once

#include "kernels/learn_problem.h"
#include "product.h"

/* Floats of a feature. With a power of two, many features would share the same sets of the cache. */
enum { GCONV_LEARN_PITCH = GCONV_LEARN_SLICE + 16 };

typedef struct gconv_learn_dense {
  gconv_layer_problem problem;
  int64_t inputs, outputs, padded; /* padded: `outputs`, rounded up to whole vectors */
  size_t weights, parameters;      /* floats of the weights; floats of weights and biases */
  int64_t *offsets;                /* owned: where each feature of a slice begins, for the larger of inputs and outputs */
} gconv_learn_dense;

/* Prepares the training of a dense layer. Free *dense with gconv_learn_dense_free(), on failure too. */
gconv_status gconv_learn_dense_prepare(const gconv_layer_problem *problem, gconv_learn_dense *dense);
void gconv_learn_dense_free(gconv_learn_dense *dense);

/* gconv_learn_dense_take() converts weights from the layout of gconv_learn_net to this engine's layout.
 * gconv_learn_dense_give() converts them back. */
void gconv_learn_dense_take(const gconv_learn_dense *dense, const float *plain, float *own);
void gconv_learn_dense_give(const gconv_learn_dense *dense, const float *own, float *plain);

/* Transposes the weights to outputs x inputs for the gradient of inputs. It is called once a step. */
void gconv_learn_dense_transpose(const gconv_learn_dense *dense, const float *own, float *panel);

/* The next three functions compute the outputs y, the gradient dx of inputs, and the gradient of weights, for `cases` cases.
 * GCONV_LEARN_SLACK floats after y and dx may be overwritten. gconv_learn_dense_weights() needs a workspace of cases x
 * padded floats, `transposed`. Its dz has room for `padded` features; the features after the outputs become 0. */
void gconv_learn_dense_forward(const gconv_learn_dense *dense, const float *own, const float *x, int64_t cases, float *y);
void gconv_learn_dense_inputs(const gconv_learn_dense *dense, const float *panel, const float *dz, int64_t cases, float *dx);
void gconv_learn_dense_weights(const gconv_learn_dense *dense, const float *x, float *dz, int64_t cases, float *transposed,
                               float *gradient);
