/* SPDX-License-Identifier: MIT */
/* Filters in blocks of about equal size, and parts for threads. The first `larger` blocks have size + 1 filters, the others
 * `size`. */
#pragma once

#include "kernels/cpu/rows.h"
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

/* `count` items that are cut into parts of `size` items. Each part makes `tasks` tasks. */
typedef struct gconv_cake {
  int64_t count, size, least, most, tasks; /* least and most: bounds of the size */
  double single;                           /* the time of an odd item, relative to an item of a pair */
} gconv_cake;

/* Returns the work of the busiest thread if parts have `size` items. */
static inline double gconv_cake_load(const gconv_cake *c, int64_t size, int32_t threads) {
  const double part = (double)(size / 2 * 2) + (double)(size % 2) * c->single;
  return part * (double)gconv_divide_up(c->tasks * gconv_divide_up(c->count, size), threads);
}

/* Returns the size of parts for which threads have about equal work. Sizes above c->size are preferred to smaller sizes. */
static inline int64_t gconv_even_size(const gconv_cake *c, int32_t threads) {
  int64_t best = c->size;
  for (int64_t size = c->most; size >= c->least && threads > 1; size--)
    if (gconv_cake_load(c, size, threads) <= (size > c->size ? 1 : 0.97) * gconv_cake_load(c, best, threads))
      best = size;
  return best;
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
