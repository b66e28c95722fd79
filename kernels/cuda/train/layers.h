/* SPDX-License-Identifier: MIT */
/*
 * Training on a GPU, with a kernel for each part of each layer. kernels/learn_problem.h has the formulas, and the order of
 * all sums. Values of a layer are cases x channels x rows x columns.
 *
 * Functions start kernels on `stream` and return at once; cudaGetLastError() returns their failure. Pointers are to device
 * memory.
 */
#pragma once

#include "kernels/learn_math.h"

#include <cuda_runtime_api.h>

/* The result of a step: the sum of its losses, and the number of cases that were classified right. */
typedef struct gconv_learn_outcome {
  double loss;
  uint64_t hits;
} gconv_learn_outcome;

/* What the kernels of several steps share, in device memory. */
typedef struct gconv_learn_control {
  uint32_t begun; /* steps whose losses are known */
  uint32_t stop;  /* 1 after a loss that is not finite: parameters stay as they are */
  uint32_t keep;  /* 1 if the parameters before this step are the best so far */
  double best;    /* the least loss so far */
} gconv_learn_control;

/* The gradient of a layer's parameters: the sum of `count` neighbouring arrays. */
typedef struct gconv_learn_parts {
  const float *leaves;
  int64_t first, parameters; /* the number of the first parameter of the layer; how many it has */
  int32_t count;
} gconv_learn_parts;

/* The arrays of an update. Only some optimisers use `second`. */
typedef struct gconv_learn_arrays {
  float *parameters, *first, *second, *best;
  const uint8_t *are_weights; /* for each parameter: 1 if it is a weight */
} gconv_learn_arrays;

/* A tap of a filter, relative to the first tap. */
typedef struct gconv_learn_tap {
  int32_t row, column; /* row and column of the input */
  int64_t offset;      /* in the input of a group */
} gconv_learn_tap;

/* A layer, with tables for its kernels. Dense layers have one place. */
typedef struct gconv_learn_own {
  gconv_learn_layer layer;
  bool in_tail;          /* a dense layer of the tail: gradients of weights are summed by slices of cases */
  gconv_learn_tap *taps; /* in device memory: C / G x R x S, and one for the bias; NULL without weights */
} gconv_learn_own;

/* Lists the taps of a filter in the order c, r, s, in host memory. */
void gconv_learn_make_taps(const gconv_layer_problem *problem, gconv_learn_tap *taps);

/* Copies `cases` cases from a data set to x. Their numbers begin at numbers[control->begun * batch], or at numbers[0] if
 * control is NULL. */
void gconv_learn_cuda_take(const float *data, const size_t *numbers, const gconv_learn_control *control, int64_t batch,
                           int64_t cases, int64_t floats, float *x, cudaStream_t stream);
/* Computes y from x by a layer with weights, without softmax. */
void gconv_learn_cuda_forward(const gconv_learn_own *own, const float *parameters, const float *x, int64_t cases, float *y,
                              cudaStream_t stream);
/* losses[n]: the loss of case n; hits[n]: 1 if its largest output is that of the right class, else 0. */
void gconv_learn_cuda_losses(const gconv_learn_net *net, const float *y, const float *targets, int64_t cases, double *losses,
                             uint32_t *hits, cudaStream_t stream);
/* Sums the hits, and the losses by a tree, to outcomes[control->begun++]; overwrites both arrays. Sets `stop` if the loss is
 * not finite, `keep` and `best` if the loss times `factor` is below `best`. */
void gconv_learn_cuda_sum_losses(double *losses, uint32_t *hits, int64_t cases, double factor, gconv_learn_outcome *outcomes,
                                 gconv_learn_control *control, cudaStream_t stream);
/* dy = the gradient of the network's outputs y. If `last` is not NULL, it is the layer that yields y, and dy = the gradient
 * of its sums. */
void gconv_learn_cuda_outputs(const gconv_learn_net *net, const gconv_learn_own *last, const float *y, const float *targets,
                              int64_t cases, float factor, float *dy, cudaStream_t stream);
/* Replaces dy, the gradient of outputs y, by the gradient of their sums. */
void gconv_learn_cuda_differentiate(const gconv_learn_own *own, const float *y, float *dy, int64_t cases,
                                    cudaStream_t stream);
/* dx = the gradient of the inputs of a layer with weights. */
void gconv_learn_cuda_inputs(const gconv_learn_own *own, const float *parameters, const float *dz, int64_t cases, float *dx,
                             cudaStream_t stream);
/* Returns the number of leaves that gconv_learn_cuda_weights() stores. */
int64_t gconv_learn_leaves(const gconv_learn_own *own, int64_t cases);
/* Computes the gradient of weights in chains (kernels/learn_problem.h). Each leaf has the chains of all parameters of the
 * layer. */
void gconv_learn_cuda_weights(const gconv_learn_own *own, const float *x, const float *dz, int64_t cases, float *leaves,
                              cudaStream_t stream);
/* Does gconv_learn_cuda_weights() for convolutions (gradient.cu). Returns false if it does not support the layer. */
bool gconv_learn_cuda_gradient(const gconv_learn_own *own, const float *x, const float *dz, int64_t cases, float *leaves,
                               cudaStream_t stream);
/* The gradient of a convolution's weights and biases by tensor cores (gradient_tensor.cu). */
typedef struct gconv_learn_tensor gconv_learn_tensor;
/* Prepares the gradient once, for up to `cases` cases. Its accuracy is that of float32 if `math` is float32, otherwise that
 * of tf32. *tensor is NULL if the layer or the GPU does not suit, or if there is no memory. Free it with free(). */
void gconv_learn_tensor_make(const gconv_learn_own *own, int64_t cases, gconv_math math, gconv_learn_tensor **tensor);
/* Returns the floats of the workspace that gconv_learn_cuda_tensor() needs. */
size_t gconv_learn_tensor_floats(const gconv_learn_tensor *tensor);
/* gradient = the gradient of the weights and biases. */
void gconv_learn_cuda_tensor(const gconv_learn_tensor *tensor, const float *x, const float *dz, int64_t cases,
                             float *workspace, float *gradient, cudaStream_t stream);
/* sums[i] = the sum by a tree of leaves[i][0 .. count - 1], for i < outer. A leaf and a sum have `floats` floats. */
void gconv_learn_cuda_tree(const float *leaves, int64_t outer, int64_t count, int64_t floats, float *sums,
                           cudaStream_t stream);
/* Updates all parameters by the gradients of `layers` layers, as steps[control->begun - 1] says; if control->stop, nothing.
 * If control->keep, first copies the parameters to arrays.best. Sets *bad to 1 if a new parameter is not finite. */
void gconv_learn_cuda_update(const gconv_learn_step *steps, const gconv_learn_parts *parts, size_t layers,
                             const gconv_learn_arrays *arrays, const gconv_learn_control *control, uint32_t *bad,
                             cudaStream_t stream);
