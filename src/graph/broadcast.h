/* SPDX-License-Identifier: MIT */
/* Loops over the elements of an output whose inputs are broadcast as NumPy does. */
#pragma once

#include "graph/node.h"

GCONV_C_BEGIN

enum { GCONV_LOOP_INPUTS = 3 };

/* Computes `count` neighbouring elements of an output. Neighbours of input i are step[i] elements apart: 1, or 0 if one
 * element serves all. out may be the memory of an input. */
typedef void gconv_element_loop(const void *const in[GCONV_LOOP_INPUTS], const int64_t step[GCONV_LOOP_INPUTS], void *out,
                                int64_t count, const void *settings);

/* Runs a loop for all elements of output 0, with inputs first[0 .. count - 1] of the node. */
void gconv_node_loop(const gconv_node_work *work, const gconv_tensor *const *inputs, int32_t count, gconv_element_loop *loop,
                     gconv_tensor *out);

GCONV_C_END
