/* SPDX-License-Identifier: MIT */
/*
 * Training by backpropagation, as its engines see it: a chain of layers, their parameters in one array, and a loss. The
 * order of every sum is fixed, so that all engines of the exact family yield the same bytes, whatever device, threads and
 * vectors.
 *
 * Numbers are float32 and operations are rounded once each, as written below; fmaf() is one operation. A step with N cases:
 *
 *   Forward. Layers are computed as layer_problem.h says: a chain of fmaf over c, r, s from +0, then + bias, then the
 *   activation (activation.h, also of softmax). Mean: mean.h. Residual: y = x + input. Kinds that run in graphs, and their
 *   gradients: src/layer/kind_NAME.c. An upconv is the transpose of the convolution that gconv_learn_turned() returns: it
 *   computes the gradient of that convolution's inputs.
 *
 *   Loss. With d = y - t, the loss of a case is a chain in float64 of d * d or |d| over outputs, in the order k, p, q. For
 *   cross-entropy, it is the one term -log y (gconv_learn_log() of learn_math.h). The losses of the cases are summed by a
 *   tree.
 *
 *   Weights of classes, if there are any: the loss of a case, and then each gradient of its outputs, is multiplied by the
 *   weight of its class.
 *
 *   Gradient of outputs. With f = float32(gconv_learn_factor()): sse: y - t; mse: (y - t) * f; mae: f, -f or 0;
 *   cross-entropy with softmax: the gradient of the sums, (y - t) * f.
 *
 *   Gradient of sums, z: gconv_learn_slope() of learn_math.h. Softmax, unless with cross-entropy: s is a chain of fmaf(dy_k,
 *   y_k, s) over k from +0, begun anew at each multiple of GCONV_SOFTMAX_PART; the chains are added in float64, and their
 *   sum is rounded to float32; dz_k = y_k * (dy_k - s).
 *
 *   Gradient of inputs. Of convolutions, in gather form: a chain of fmaf(w, dz, sum) from +0 over k of the input's group,
 *   then p, then q, of all outputs that the input takes part in; then + 0.0f, which makes a -0 a +0, so that products with
 *   zeros may be added or left out. Means have dy / (rows * columns), residuals dy.
 *
 *   Gradient of weights: the sum of dz * x over cases and places. It is made of chains of fmaf(x, dz, sum) from +0. The bias
 *   is a weight with x = 1. x is 0 outside the image, and those zeros take part. Chains begin and end as follows:
 *   - in the dense tail (gconv_learn_tail()), a chain has GCONV_LEARN_SLICE cases in a row, the last chain the cases that
 *     remain. The chains are summed by a tree;
 *   - in the layers before the tail, the output rows of a case are cut into gconv_learn_bands() bands of
 *     gconv_learn_band_rows() rows; the last band has the rows that remain. A chain goes through the rows and columns of a
 *     band. The chains of a case are summed by a tree; then another tree sums the results of the cases.
 *
 *   Tree: neighbours are added in pairs, a[i] = a[2 i] + a[2 i + 1]; a last number without a neighbour stays as it is. This
 *   repeats until one number is left.
 *
 *   Update: gconv_learn_update() of learn_math.h, for each parameter.
 */
#pragma once

#include "base/lists.h"
#include "gconv_learn.h"
#include "kernels/layer_problem.h"

enum {
  GCONV_LEARN_SLICE = 128,      /* cases of a chain, in the dense tail */
  GCONV_LEARN_BAND_PLACES = 512 /* places of a band, about */
};

enum { GCONV_LOSSES = GCONV_EACH_LOSS(GCONV_COUNTED) }; /* without the default */

typedef struct gconv_learn_layer {
  gconv_layer_kind kind;
  gconv_layer_problem problem; /* problem of one case; a mean or residual only sets channels, height, width, filters,
                                  out_height and out_width */
  size_t weights;              /* where K x C/G x R x S weights and K biases begin in the parameters */
  size_t parameters;           /* how many weights and biases there are */
  size_t from;                 /* of concat and add: 0, the input of the network; i: the output of layer i - 1 */
} gconv_learn_layer;

typedef struct gconv_learn_net {
  const gconv_learn_layer *layers;
  size_t count;
  gconv_loss loss;            /* never the default */
  bool classes;               /* the target of a case is the number of its class; else it has as many targets as outputs */
  size_t parameters;          /* floats of the parameters of all layers */
  const float *class_weights; /* a weight for each class, in memory of the device that computes; NULL: all are 1 */
} gconv_learn_net;

/* gconv_learn_in_floats(), gconv_learn_out_floats(): how many floats of a case go into a layer, and come out of it. */
GCONV_BOTH size_t gconv_learn_in_floats(const gconv_learn_layer *layer) {
  return (size_t)layer->problem.channels * (size_t)layer->problem.height * (size_t)layer->problem.width;
}
GCONV_BOTH size_t gconv_learn_out_places(const gconv_learn_layer *layer) {
  return (size_t)layer->problem.out_height * (size_t)layer->problem.out_width;
}
GCONV_BOTH size_t gconv_learn_out_floats(const gconv_learn_layer *layer) {
  return (size_t)layer->problem.filters * gconv_learn_out_places(layer);
}
GCONV_BOTH size_t gconv_learn_outputs(const gconv_learn_net *net) {
  return gconv_learn_out_floats(&net->layers[net->count - 1]);
}
GCONV_BOTH size_t gconv_learn_target_floats(const gconv_learn_net *net) {
  return net->classes ? 1 : gconv_learn_outputs(net);
}

/* Returns the convolution whose transpose is an upconv of this problem. It goes from the upconv's outputs to its inputs.
 * Where filters overlap, half of the overlap is cropped on either side. */
GCONV_BOTH gconv_layer_problem gconv_learn_turned(const gconv_layer_problem *p) {
  gconv_layer_problem turned = *p;
  turned.channels = p->filters, turned.height = p->out_height, turned.width = p->out_width;
  turned.filters = p->channels, turned.out_height = p->height, turned.out_width = p->width;
  turned.pad_top = p->rows > p->stride_y ? (p->rows - p->stride_y) / 2 : 0;
  turned.pad_left = p->columns > p->stride_x ? (p->columns - p->stride_x) / 2 : 0;
  turned.groups = 1;
  turned.activation = GCONV_ACTIVATION_NONE;
  return turned;
}

/* Returns whether each output of a convolution depends on the whole input, and on nothing outside. */
GCONV_BOTH bool gconv_learn_is_dense(const gconv_learn_layer *layer) {
  const gconv_layer_problem *p = &layer->problem;
  return layer->kind == GCONV_LAYER_CONV && p->out_height == 1 && p->out_width == 1 && p->pad_top == 0 && p->pad_left == 0 &&
         p->rows == p->height && p->columns == p->width && p->groups == 1;
}

/* Returns the number of the first layer of the dense tail: from this layer on, all are dense, or residuals of one place. */
GCONV_BOTH size_t gconv_learn_tail(const gconv_learn_net *net) {
  size_t tail = net->count;
  while (tail > 0) {
    const gconv_learn_layer *layer = &net->layers[tail - 1];
    bool place = layer->kind == GCONV_LAYER_RESIDUAL && gconv_learn_out_places(layer) == 1;
    if (!gconv_learn_is_dense(layer) && !place)
      break;
    tail--;
  }
  return tail;
}

GCONV_BOTH int32_t gconv_learn_bands(const gconv_layer_problem *problem) {
  int64_t places = (int64_t)problem->out_height * problem->out_width;
  int64_t bands = (places + GCONV_LEARN_BAND_PLACES - 1) / GCONV_LEARN_BAND_PLACES;
  int64_t most = bands < problem->out_height ? bands : problem->out_height, rows = (problem->out_height + most - 1) / most;
  return (int32_t)((problem->out_height + rows - 1) / rows);
}
GCONV_BOTH int32_t gconv_learn_band_rows(const gconv_layer_problem *problem) {
  int32_t bands = gconv_learn_bands(problem), rows = (problem->out_height + bands - 1) / bands;
  return rows;
}

/* gconv_learn_loss_factor() returns the factor of the summed losses. gconv_learn_factor() returns the factor of the
 * differences y - t in gradients. For sse and mse, the second is twice the first, as d^2 has the derivative 2 d. */
GCONV_BOTH double gconv_learn_loss_factor(const gconv_learn_net *net, size_t cases) {
  switch (net->loss) {
  case GCONV_LOSS_SSE:
    return 0.5;
  case GCONV_LOSS_CROSS_ENTROPY:
    return 1.0 / (double)cases;
  case GCONV_LOSS_MSE:
  case GCONV_LOSS_MAE:
  case GCONV_LOSS_DEFAULT: /* which is resolved before */
    break;
  }
  return 1.0 / ((double)cases * (double)gconv_learn_outputs(net));
}
GCONV_BOTH double gconv_learn_factor(const gconv_learn_net *net, size_t cases) {
  switch (net->loss) {
  case GCONV_LOSS_SSE:
  case GCONV_LOSS_MSE:
    return gconv_learn_loss_factor(net, cases) * 2.0;
  case GCONV_LOSS_MAE:
  case GCONV_LOSS_CROSS_ENTROPY:
  case GCONV_LOSS_DEFAULT:
    break;
  }
  return gconv_learn_loss_factor(net, cases);
}
