/* SPDX-License-Identifier: MIT */
/* The arena: one piece of memory for the results of all nodes. The place of a result is free again after its last use.
 * Results are placed from the largest to the smallest, each at the lowest place that is free while it is used. */
#include "base/memory.h"
#include "graph/graph.h"

#include <stdlib.h>

static int compare_sizes(const void *a, const void *b) {
  const gconv_arena_block *x = *(gconv_arena_block *const *)a, *y = *(gconv_arena_block *const *)b;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  return x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                              : (x->value > y->value) - (x->value < y->value);
}

static bool live_together(const gconv_arena_block *a, const gconv_arena_block *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* Puts block[count] after the first gap that is large enough, between the blocks of block[0 .. count - 1] that live at the
 * same time. `laid` has these blocks in the order of their places. */
static bool lay(gconv_arena_block *block, gconv_arena_block **laid, size_t count) {
  size_t end = 0, i;
  for (i = 0; i < count; i++) {
    if (!live_together(block, laid[i]))
      continue;
    if (laid[i]->at >= end && laid[i]->at - end >= block->bytes)
      break;
    if (laid[i]->at + laid[i]->bytes > end)
      end = laid[i]->at + laid[i]->bytes;
  }
  block->at = end;
  if (block->bytes > PTRDIFF_MAX || end > PTRDIFF_MAX - block->bytes)
    return false;
  for (i = count; i > 0 && laid[i - 1]->at > block->at; i--)
    laid[i] = laid[i - 1];
  laid[i] = block;
  return true;
}

/* Fails if two blocks overlap in place and time, which would be an error of lay(). */
static gconv_status check(gconv_arena_block **laid, size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t j = i + 1; j < count && laid[j]->at < laid[i]->at + laid[i]->bytes; j++)
      if (live_together(laid[i], laid[j]))
        return gconv_fail(GCONV_UNSUPPORTED, "two tensors of a plan were laid into the same memory: please report this");
  return GCONV_OK;
}

gconv_status gconv_arena_lay(gconv_arena_block *blocks, size_t count, size_t *bytes) {
  GCONV_FREED gconv_arena_block **order = NULL;
  *bytes = 0;
  GCONV_NEW(order, 2 * count + 1, "no memory for a plan");
  gconv_arena_block **laid = order + count;
  for (size_t i = 0; i < count; i++) {
    const size_t odd = blocks[i].bytes % GCONV_ALIGNMENT;
    blocks[i].bytes += odd > 0 && blocks[i].bytes < PTRDIFF_MAX - GCONV_ALIGNMENT ? GCONV_ALIGNMENT - odd : 0;
    order[i] = &blocks[i];
  }
  qsort(order, count, sizeof *order, compare_sizes);
  for (size_t i = 0; i < count; i++) {
    if (!lay(order[i], laid, i))
      return gconv_fail(GCONV_TOO_LARGE, "the tensors of a plan need more memory than there are addresses");
    if (order[i]->at + order[i]->bytes > *bytes)
      *bytes = order[i]->at + order[i]->bytes;
  }
  return check(laid, count);
}
