/* SPDX-License-Identifier: MIT */
/* Moves elements from one tensor to another, as Transpose, Slice or Concat do. */
#pragma once

#include "graph/node.h"
#include "kernels/cuda/graph/graph.h"

GCONV_C_BEGIN

typedef gconv_gpu_move gconv_move; /* without `from`, `to` and `bytes` */

/* Appends an axis. Leaves out an axis of one element. Joins the axis with the last one if the steps allow it. */
void gconv_move_add(gconv_move *move, int64_t size, int64_t from_step, int64_t to_step);

/* Moves elements of `bytes` bytes, 1, 2, 4 or 8: in the memory of the host or, for cuda() of kinds, of the GPU. */
gconv_status gconv_move_run(const gconv_node_work *work, const gconv_move *move, size_t bytes, const void *from, void *to);

GCONV_C_END
