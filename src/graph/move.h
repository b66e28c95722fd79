/* SPDX-License-Identifier: MIT */
/* Moves elements from one tensor to another, as Transpose, Slice or Concat do. */
#pragma once

#include "graph/node.h"

GCONV_C_BEGIN

enum { GCONV_MOVE_AXES = 2 * GCONV_TENSOR_AXES };

/* Element (i0, i1, ...) lies at sum i * from_step of the source, and goes to sum i * to_step. Steps count elements. A step
 * of 0 repeats an element, a negative one goes backwards. No two elements go to the same place. */
typedef struct gconv_move {
  int32_t axes;
  int64_t shape[GCONV_MOVE_AXES], from_step[GCONV_MOVE_AXES], to_step[GCONV_MOVE_AXES];
} gconv_move;

/* Appends an axis. */
void gconv_move_add(gconv_move *move, int64_t size, int64_t from_step, int64_t to_step);

/* Moves elements of `bytes` bytes, 1, 2, 4 or 8: in the memory of the host or, for cuda() of kinds, of the GPU. */
gconv_status gconv_move_run(const gconv_node_work *work, const gconv_move *move, size_t bytes, const void *from, void *to);

GCONV_C_END
