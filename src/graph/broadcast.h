/* SPDX-License-Identifier: MIT */
/* Loops over the elements of an output whose inputs are broadcast as NumPy does. */
#pragma once

#include "graph/node.h"

GCONV_C_BEGIN

/* Runs a loop for all elements of output 0, with inputs first[0 .. count - 1] of the node. */
void gconv_node_loop(const gconv_node_work *work, const gconv_tensor *const *inputs, int32_t count, gconv_element_loop *loop,
                     gconv_tensor *out);

GCONV_C_END
