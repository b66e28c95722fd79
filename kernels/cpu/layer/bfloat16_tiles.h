/* SPDX-License-Identifier: MIT */
/* Products of tiles of bfloat16 (AMX), for gemm_6xbf16.c: each float32 is a sum of three bfloat16. Call these functions only
 * if gconv_cpu_tiles() is true. */
#pragma once

#include "stage.h"

enum {
  GCONV_TILE_SIDE = 16, /* filters of a tile of weights, pixels of a vector, and the most pairs of numbers of a step */
  GCONV_SPLITS = 3,     /* bfloat16 numbers that a float32 is split into, the largest first */
  GCONV_TILE_BYTES = 1024
};

/* Tiles of some blocks of 16 filters and some vectors of 16 pixels. Distances are in bytes. */
typedef struct gconv_tile_product {
  const uint8_t *weights; /* of the first block: for each step and split, a tile */
  const uint8_t *samples; /* of the first vector: 16 neighbouring pairs are a row of a tile */
  int64_t block;          /* from a block of weights to the next */
  int64_t row, split;     /* from a row of a tile of samples to the next; from a split to the next */
  const int64_t *offsets; /* of each step, from `samples` */
  int32_t steps;
  float *sums;
  int64_t pitch;   /* floats from a filter's sums to those of the next */
  int64_t fetched; /* bytes of each step's weights to prefetch for a later step; set by gconv_tiles_multiply() */
} gconv_tile_product;

/* Sets the sizes of this thread's tiles: blocks of `rows` filters, steps of `depth` pairs. They hold until
 * gconv_tiles_end(). */
void gconv_tiles_begin(int rows, int depth);
void gconv_tiles_end(void);

/* Makes the sums of one or two blocks for `vectors` vectors. Changes *p. */
void gconv_tiles_multiply(gconv_tile_product *p, int32_t blocks, int64_t vectors);

#define GCONV_TINY 0x1p-100F /* smaller numbers lose some of their 24 bits in tiles; the smallest become 0 */

/* Writes pairs (a[i] / 2, b[i] / 2), each split into three: part n begins at to + n * split. Without halving, the largest
 * numbers would be rounded to infinity. If b is NULL, b[i] is 0. Returns whether a magnitude is below GCONV_TINY, and not
 * 0. */
bool gconv_split_pairs(const float *a, const float *b, int64_t count, uint32_t *to, int64_t split);

/* to[i] = scale * sums[i] + bias within the bounds. The arrays do not overlap. Returns whether all sums are finite. */
bool gconv_tiles_finish(const float *sums, float scale, float bias, const gconv_layer_bounds *bounds, int64_t count,
                        float *to);
