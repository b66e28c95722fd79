/* SPDX-License-Identifier: MIT */
/*
 * Training of dense layers by tensor cores: one kernel for each product and its epilogue. Products have the accuracy of
 * float32 (three products of tf32 each), or that of `math`. kernels/learn_problem.h has the formulas.
 *
 * Functions start kernels on `stream` and return at once; cudaGetLastError() returns their failure. Pointers are to device
 * memory. x, y, dz, dx are cases x inputs or outputs.
 */
#pragma once

#include "layers.h"

/* True if the layer and the current device suit. */
bool gconv_dense_suits(const gconv_learn_own *own, int64_t cases);
/* gconv_dense_parts() returns into how many parts gconv_dense_weights() cuts the cases; gconv_dense_most_parts() returns the
 * most parts for up to `batch` cases. */
int32_t gconv_dense_parts(const gconv_learn_own *own, int64_t cases);
int32_t gconv_dense_most_parts(const gconv_learn_own *own, int64_t batch);

/* y = the layer's outputs for x, without softmax. */
void gconv_dense_forward(const gconv_learn_own *own, gconv_math math, const float *parameters, const float *x, int64_t cases,
                         float *y, cudaStream_t stream);
/* dx = the gradient of the inputs x. If `before`, the layer that yields x, is not NULL: the gradient of its sums. */
void gconv_dense_backward(const gconv_learn_own *own, const gconv_learn_own *before, gconv_math math,
                          const float *parameters, const float *dz, const float *x, int64_t cases, float *dx,
                          cudaStream_t stream);
/* leaves = gconv_dense_parts() arrays, whose sum is the gradient of the weights and biases. */
void gconv_dense_weights(const gconv_learn_own *own, gconv_math math, const float *x, const float *dz, int64_t cases,
                         float *leaves, cudaStream_t stream);
