/* SPDX-License-Identifier: MIT */
/* Element-wise nodes: what kind_elementwise.c, elementwise.c and elementwise_gpu.c share. */
#pragma once

#include "graph/broadcast.h"
#include "kernels/elementwise.h"

/* The loop y = x * min(max(x + alpha, low), high) / beta, rounded after each operation: a hard swish that is written as Add,
 * Clip, Mul and Div. */
extern gconv_element_loop *const gconv_elementwise_swish_by_steps;

/* Returns the loop of an operation, whose settings are gconv_elementwise_settings; NULL if it does not take this type. */
gconv_element_loop *gconv_elementwise_loop(int32_t operation, gconv_tensor_type type);

/* Gives input 1 of an operator of opset 6 a shape for NumPy's rules of broadcasting. In opset 6, input 1 has some
 * neighbouring axes of input 0, and is repeated along the others; without `broadcast`, both have one shape. */
gconv_status gconv_elementwise_align_old(const gconv_node_work *work, const gconv_node_kind *kind, gconv_tensor *aligned);

/* Whether an integer tensor has an element 0. */
bool gconv_elementwise_has_zero(const gconv_tensor *tensor);

/* The functions `cuda` of rows (elementwise_gpu.c). */
gconv_status gconv_elementwise_cuda(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_pow(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_old(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_many(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_mean(const gconv_node_work *work, const gconv_node_kind *kind);
gconv_status gconv_elementwise_cuda_clip(const gconv_node_work *work, const gconv_node_kind *kind);
