/* SPDX-License-Identifier: MIT */
/*
 * Training on a GPU, a kernel for each part of each layer. All do what kernels/learn_problem.h says, in its order. They are
 * started on `stream`, and the functions return at once: cudaGetLastError() tells of failures. Pointers are to memory of the
 * device. Values of a layer are cases x floats of a case, in the order of channels, rows and columns.
 */
#ifndef GCONV_KERNELS_CUDA_TRAIN_LAYERS_H
#define GCONV_KERNELS_CUDA_TRAIN_LAYERS_H

#include "kernels/learn_math.h"

#include <cuda_runtime_api.h>

/* What a step came to: the sum of its losses, and how many cases were given their class. */
typedef struct gconv_learn_outcome {
  double loss;
  uint64_t hits;
} gconv_learn_outcome;

/* A tap of a filter, for kernels: what its channel, row and column come to. */
typedef struct gconv_learn_tap {
  int32_t row, column; /* of the input, from the first tap on */
  int64_t offset;      /* in the input of a group, from the place of the first tap */
} gconv_learn_tap;

/* A layer, with tables for its kernels. Dense layers have one place. */
typedef struct gconv_learn_own {
  gconv_learn_layer layer;
  bool in_tail;          /* sums of weights are those of slices of cases */
  gconv_learn_tap *taps; /* of the device: C / G x R x S of them, and one that says it is the bias; NULL without weights */
} gconv_learn_own;

/* The taps of a filter in the order c, r, s, for the host. */
void gconv_learn_make_taps(const gconv_layer_problem *problem, gconv_learn_tap *taps);

/* x = the cases `numbers` of a data set. */
void gconv_learn_cuda_take(const float *data, const size_t *numbers, int64_t cases, int64_t floats, float *x,
                           cudaStream_t stream);
/* y from x, but for softmax; `input` is the input of the network, which a residual adds. */
void gconv_learn_cuda_forward(const gconv_learn_own *own, const float *parameters, const float *x, const float *input,
                              int64_t cases, float *y, cudaStream_t stream);
/* Softmax of sums. */
void gconv_learn_cuda_soften(const gconv_learn_own *own, int64_t cases, float *y, cudaStream_t stream);
/* The loss of each case, and whether it was given its class. */
void gconv_learn_cuda_losses(const gconv_learn_net *net, const float *y, const float *targets, int64_t cases, double *losses,
                             uint32_t *hits, cudaStream_t stream);
/* The sum of losses by a tree, which overwrites them, and of hits. If it is not finite, *stop = 1. */
void gconv_learn_cuda_sum_losses(double *losses, const uint32_t *hits, int64_t cases, gconv_learn_outcome *outcome,
                                 uint32_t *stop, cudaStream_t stream);
/* The gradient of the outputs y of the network. */
void gconv_learn_cuda_outputs(const gconv_learn_net *net, const float *y, const float *targets, int64_t cases, float factor,
                              float *dy, cudaStream_t stream);
/* dy, the gradient of outputs y, becomes dz, that of sums. */
void gconv_learn_cuda_differentiate(const gconv_learn_own *own, const float *y, float *dy, int64_t cases,
                                    cudaStream_t stream);
void gconv_learn_cuda_inputs(const gconv_learn_own *own, const float *parameters, const float *dz, int64_t cases, float *dx,
                             cudaStream_t stream);
/* The chains of the gradient of weights: leaves x parameters of the layer, where gconv_learn_leaves() says how many leaves
 * there are. */
int64_t gconv_learn_leaves(const gconv_learn_own *own, int64_t cases);
void gconv_learn_cuda_weights(const gconv_learn_own *own, const float *x, const float *dz, int64_t cases, float *leaves,
                              cudaStream_t stream);
/* The same of a convolution, by a kernel for them. False if it does not take the layer (gradient.cu). */
bool gconv_learn_cuda_gradient(const gconv_learn_own *own, const float *x, const float *dz, int64_t cases, float *leaves,
                               cudaStream_t stream);
/* The gradient of a convolution's weights and biases by tensor cores (gradient_tensor.cu): with float32 as `math`, to the
 * accuracy of float32; all others are as tf32. What is known beforehand, for up to so many cases, is made once; NULL: the
 * layer or the GPU is not for them. To be freed with free(). */
typedef struct gconv_learn_tensor gconv_learn_tensor;
void gconv_learn_tensor_make(const gconv_learn_own *own, int64_t cases, gconv_math math, gconv_learn_tensor **tensor);
size_t gconv_learn_tensor_floats(const gconv_learn_tensor *tensor); /* of the workspace */
void gconv_learn_cuda_tensor(const gconv_learn_tensor *tensor, const float *x, const float *dz, int64_t cases,
                             float *workspace, float *gradient, cudaStream_t stream);
/* sums[i] = the sum, by a tree, of leaves[i][0 .. count - 1], each of `floats` floats, for all i < outer. */
void gconv_learn_cuda_tree(const float *leaves, int64_t outer, int64_t count, int64_t floats, float *sums,
                           cudaStream_t stream);
/* A step of all parameters, unless *stop. */
void gconv_learn_cuda_update(const gconv_learn_step *step, const uint8_t *are_weights, int64_t count, const float *gradient,
                             float *parameters, float *first, float *second, const uint32_t *stop, uint32_t *bad,
                             cudaStream_t stream);

#endif
