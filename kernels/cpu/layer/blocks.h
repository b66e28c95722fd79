/* SPDX-License-Identifier: MIT */
/* Filters in blocks of about equal size: the first `larger` blocks have size + 1 filters, the others `size`. */
#pragma once

#include "kernels/layer_problem.h"

typedef struct gconv_blocks {
  int32_t count, size, larger;
} gconv_blocks;

static inline gconv_blocks gconv_blocks_of(int32_t filters, int32_t most) {
  int32_t count = (filters - 1) / most + 1;
  return (gconv_blocks){count, filters / count, filters % count};
}

/* Returns the first filter of block i. For the block after the last, that is the number of filters. */
static inline int32_t gconv_block_start(const gconv_blocks *b, int32_t i) {
  return i * b->size + (i < b->larger ? i : b->larger);
}

/* Returns the filters of block i. */
static inline int32_t gconv_block_filters(const gconv_blocks *b, int32_t i) {
  return b->size + (i < b->larger);
}

/* Writes the weights of a problem in the order in which blocks of filters read them: group by group, block by block, tap
 * after tap, the weights of a block's filters. They are K * C / G * R * S floats. */
static inline void gconv_blocks_prepare(const gconv_blocks *b, const gconv_layer_problem *problem, const float *weights,
                                        float *prepared) {
  const int64_t depth = gconv_layer_taps(problem);
  for (int32_t g = 0; g < problem->groups; g++)
    for (int32_t i = 0; i < b->count; i++) {
      const int64_t k = (int64_t)g * (problem->filters / problem->groups) + gconv_block_start(b, i);
      for (int64_t t = 0; t < depth; t++)
        for (int32_t f = 0; f < gconv_block_filters(b, i); f++)
          *prepared++ = weights[(k + f) * depth + t];
    }
}
