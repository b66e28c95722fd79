/* SPDX-License-Identifier: MIT */
/* Nodes that compute each element by itself: what kind_elementwise.c, elementwise.c and elementwise_gpu.c share. Only .c
 * files of this family include it. */
#pragma once

#include "graph/broadcast.h"
#include "kernels/elementwise.h"

/* The loop y = x * min(max(x + alpha, low), high) / beta, rounded after each operation: a hard swish that is written as Add,
 * Clip, Mul and Div. */
extern gconv_element_loop *const gconv_elementwise_swish_by_steps;

/* Returns the loop of an operation, whose settings are gconv_elementwise_settings; NULL if it does not take this type. */
gconv_element_loop *gconv_elementwise_loop(int32_t operation, gconv_tensor_type type);

/* Gives input 1 of an operator of opset 6 a shape that NumPy's rules repeat as that operator does: it has some neighbouring
 * axes of input 0, and is repeated along the other axes; without `broadcast`, both have one shape. */
gconv_status gconv_elementwise_align_old(const gconv_node_work *work, const gconv_node_kind *kind, gconv_tensor *aligned);

/* Whether an integer tensor has an element 0. */
bool gconv_elementwise_has_zero(const gconv_tensor *tensor);

/* Put a node's kernels into the stream of a GPU (elementwise_gpu.c): functions `cuda` of rows. */
gconv_status gconv_elementwise_cuda(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_pow(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_old(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_many(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_mean(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_clip(const gconv_node_work *work, const gconv_node_kind *kind);
