/* SPDX-License-Identifier: MIT */
/* The loops of nodes that compute each element by itself (elementwise.c): one for each operation and type of numbers. Only
 * .c files of this family include it. */
#pragma once

#include "graph/broadcast.h"
#include "kernels/elementwise.h"

/* The loop y = x * min(max(x + alpha, low), high) / beta, rounded after each operation: a hard swish that is written as Add,
 * Clip, Mul and Div. */
extern gconv_element_loop *const gconv_elementwise_swish_by_steps;

/* Returns the loop of an operation, whose settings are gconv_elementwise_settings; NULL if it does not take this type. */
gconv_element_loop *gconv_elementwise_loop(int32_t operation, gconv_tensor_type type);
