/* SPDX-License-Identifier: MIT */
/* Convolutions of float64 and of integers, which the algorithms of layers do not take: plain loops, as in the definition. */
#pragma once

#include "graph/node.h"
#include "kernels/layer_algorithm.h"

GCONV_C_BEGIN

/* Convolves tensors of one type, float64 or int32 (which wraps around): shapes, strides and padding are those of `problem`;
 * inputs outside are 0. biases may be NULL. A sum is one chain, in the order channel, row, column, from the bias on. */
void gconv_plain_conv(const gconv_node_work *work, const gconv_layer_problem *problem, gconv_tensor_type type,
                      const void *in, const void *weights, const void *biases, void *out);

GCONV_C_END
