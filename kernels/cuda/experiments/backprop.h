/* SPDX-License-Identifier: MIT */
/*
 * Backpropagation on a GPU as theses of 2010 and 2014 did it (docs/theses.md): to learn from, and to compare with. gconv
 * itself trains by ../train/layers.h and resident.h. A net of dense layers with sigmoids learns N cases, all in each step:
 *
 *     forward     y_0 = x        z_l = W_l y_(l-1) + b_l        y_l = 1 / (1 + exp(-z_l))          l = 1 .. L
 *     loss        half the sum of (y_L - t)^2 over all outputs of all cases
 *     backward    dz_L = (y_L - t) * y_L * (1 - y_L)            dz_l = (W_(l+1)' dz_(l+1)) * y_l * (1 - y_l)
 *     gradient    dW_l = the sum over cases of dz_l y_(l-1)'    db_l = the sum over cases of dz_l
 *     step        W_l = W_l - rate * dW_l                       b_l = b_l - rate * db_l
 *
 * W' is W transposed. These five lines, once for all cases, are an epoch. The methods divide the work differently:
 *
 *     backprop_thread.cu    a thread takes a case through the whole net
 *     backprop_own.cu       the same, and each thread adds to a gradient of its own
 *     backprop_block.cu     a block takes a case, or four at a time, through the net, with a thread for each neuron; sums
 *                           are on the GPU or on the host
 *     backprop_kept.cu      a kernel per layer, a block per case, a thread per neuron; the derivatives of each case are kept
 *     backprop_layer.cu     a kernel takes all cases through a layer, as a product of matrices
 *     backprop_cublas.cu    cuBLAS takes a case through a layer: a call for each
 *
 * All sums have a fixed order, so a method yields the same bits in every run. Methods differ in their rounding.
 */
#pragma once

#include "base/both.h"
#include "base/status.h"

enum {
  GCONV_BACKPROP_LAYERS = 8,
  GCONV_BACKPROP_NEURONS = 4096,
  GCONV_BACKPROP_PARTS = 8
}; /* the largest net: its numbers must fit into shared memory */

typedef struct gconv_backprop_net {
  int32_t layers;                            /* L: layers with weights */
  int32_t widths[GCONV_BACKPROP_LAYERS + 1]; /* neurons: of the input, and of each layer; at least 1 */
  int32_t cases;
} gconv_backprop_net;

/* Returns the offset of the parameters of layer l, counted from 1: its weights, a row for each neuron, then its biases. For
 * l = layers + 1, returns the number of all parameters. */
GCONV_BOTH int64_t gconv_backprop_parameters(const gconv_backprop_net *net, int32_t l) {
  int64_t at = 0;
  for (int32_t i = 1; i < l; i++)
    at += (int64_t)net->widths[i] * (net->widths[i - 1] + 1);
  return at;
}

/* Returns the number of neurons of layers 1 .. l - 1; for l = layers + 1, of all layers. */
GCONV_BOTH int32_t gconv_backprop_neurons(const gconv_backprop_net *net, int32_t l) {
  int32_t at = 0;
  for (int32_t i = 1; i < l; i++)
    at += net->widths[i];
  return at;
}

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the name of a method, such as "thread-a-case", or NULL past the end. */
const char *gconv_backprop_method_at(size_t index);

/* A net in training by one method, on the GPU that is current when it is made; one thread at a time. */
typedef struct gconv_backprop gconv_backprop;

/* The parts of a net, in host memory, which gconv_backprop_create() copies. Inputs: cases x widths[0]; targets: cases x
 * widths[layers]. */
typedef struct gconv_backprop_order {
  size_t method;
  gconv_backprop_net net;
  const float *inputs, *targets, *parameters;
  float rate;
} gconv_backprop_order;

/* Makes a net in training. Returns GCONV_UNSUPPORTED if the method cannot run here, or if the net is too large. Free it with
 * gconv_backprop_free(). */
gconv_status gconv_backprop_create(const gconv_backprop_order *order, gconv_backprop **made);
/* Trains `epochs` epochs. *milliseconds is their time on the GPU, by events. */
gconv_status gconv_backprop_train(gconv_backprop *backprop, int epochs, double *milliseconds);
/* Trains an epoch, and times its parts one by one: at most GCONV_BACKPROP_PARTS. *count becomes their number, 0 if the
 * method has no parts. Names are static. */
gconv_status gconv_backprop_time_parts(gconv_backprop *backprop, const char **names, double *milliseconds, int *count);
/* Copies the parameters to the host. */
gconv_status gconv_backprop_get(const gconv_backprop *backprop, float *parameters);
/* Frees a net in training. NULL is allowed. */
void gconv_backprop_free(gconv_backprop *backprop);

#ifdef __cplusplus
}
#endif
