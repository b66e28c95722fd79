/* SPDX-License-Identifier: MIT */
/* The geometry of Conv nodes in one and two dimensions, for floats and for quantised numbers. */
#pragma once

#include "graph/node.h"
#include "kernels/layer_algorithm.h"

GCONV_C_BEGIN

typedef struct gconv_conv_settings {
  gconv_auto_pad padding;
  gconv_node_integers strides, dilations, pads, kernel; /* as the node has them; count 0: it has none */
  int64_t groups;
} gconv_conv_settings;

/* Reads the attributes of a Conv into gconv_conv_settings: it is parse() of kinds. */
gconv_status gconv_conv_parse(const gconv_onnx_node *node, const gconv_node_kind *kind, int32_t opset, void *settings);

/* Finds the problem for images and filters of these shapes, and the shape of the result, but not its type. Fails if the
 * shapes do not fit together. */
gconv_status gconv_conv_find(const gconv_conv_settings *settings, const gconv_tensor *images, const gconv_tensor *filters,
                             const gconv_tensor *biases, gconv_layer_problem *problem, gconv_tensor *result);

/* Finds the problem of a node at work, with the nodes that are fused with it. */
gconv_status gconv_conv_problem(const gconv_node_work *work, gconv_layer_problem *problem);

/* Prepares the weights of a node at work, unless they are constant and prepared already. */
gconv_status gconv_conv_open(const gconv_node_work *work);

/* Returns the window of the images along axis 2 or 3. */
gconv_node_window gconv_conv_window(const gconv_conv_settings *settings, const gconv_tensor *images,
                                    const gconv_tensor *filters, int32_t axis);

GCONV_C_END
