/* SPDX-License-Identifier: MIT */
/* Products of weights and samples for gemm and winograd, with neighbouring filters in vectors. A tile has N pixels times V
 * vectors of filters, with its sums in registers while taps are added. Then the sums are transposed to planes of outputs. */
#pragma once

#include "stage.h"

enum {
  GCONV_PRODUCT_PIXELS = 14, /* pixels of the widest tile */
  GCONV_PRODUCT_VECTORS = 2, /* vectors of filters of a tile, at most */
  GCONV_PRODUCT_LANES = 16,  /* floats of a vector, at most */
};

/* The operand of a tile: the taps of some channels for V vectors of filters. */
typedef struct gconv_panel {
  const float *weights;   /* [channel][tap][filter] */
  const int64_t *offsets; /* where each tap reads, in floats from the pixel's first sample */
  int64_t channel;        /* floats from one channel of the samples to the next */
  int64_t step;           /* floats from the samples of a pixel to those of the next pixel */
  int32_t channels, taps;
  bool begins; /* sums begin at 0; else at the sums in memory */
  bool half;   /* V is 1, and only the lower half of the vector has filters */
  /* Weights that are needed soon, or NULL. Tiles prefetch them into the L2 cache, a vector for each tap, because processors
   * do not prefetch so far ahead. */
  const float *ahead, *ahead_end;
  /* Samples that are needed soon: with tap t, a tile prefetches soon[soon_offsets[t]]. `soon` moves by soon_step for each
   * pixel. NULL: nothing. */
  const float *soon;
  const int64_t *soon_offsets;
  int64_t soon_step;
} gconv_panel;

/* Adds all taps of the panel, in their order, to sums[i][filter], for the pixels i = 0 .. N - 1 at x. */
typedef void gconv_product_tile(const gconv_panel *panel, const float *x, float *sums);

typedef struct gconv_product {
  int lanes, pixels; /* floats of a vector; pixels of the widest tile */
  /* to[f * pitch + i] = from[i * stride + f] + biases[f] for i, f < lanes, within the bounds */
  void (*turn)(const float *from, int64_t stride, const float *biases, const gconv_layer_bounds *bounds, float *to,
               int64_t pitch);
  /* to[i * GCONV_BLOCK + f] = from[i * stride + f] + biases[f] for i < pixels and f < lanes, plus the same element of
   * `added` unless that is NULL, within the bounds */
  void (*store)(const float *from, int64_t stride, const float *biases, const gconv_layer_bounds *bounds, int64_t pixels,
                float *to, const float *added);
  /* [0][N][V] for panels whose step is 1, [1][N][V] for any step, [2][N][V] for GCONV_BLOCK. V = 0 is for half a vector;
   * NULL on some processors */
  gconv_product_tile *tiles[3][GCONV_PRODUCT_PIXELS + 1][GCONV_PRODUCT_VECTORS + 1];
} gconv_product;

/* Returns the product for this processor. */
const gconv_product *gconv_product_here(void);

/* Lets the next tiles of a panel prefetch `count` weights. */
static inline void gconv_panel_expect(gconv_panel *panel, const float *weights, int64_t count) {
  panel->ahead = weights;
  panel->ahead_end = weights + count;
}

/* Applies a panel to a row of `count` pixels, in tiles of about equal width. The first pixel is at x. `sums` has V vectors
 * for each pixel. */
void gconv_product_row(const gconv_product *product, gconv_panel *panel, const float *x, int64_t count, int V, float *sums);

/* Stores out[f * plane + i] = activation(sums[i * stride + f] + biases[f]) for i < pixels and f < filters, where a plane has
 * P * Q floats. Only the first filters are stored if a vector holds fewer than `filters`. */
void gconv_product_finish(const gconv_product *product, const gconv_layer_problem *problem, const float *sums,
                          int64_t stride, int64_t pixels, const float *biases, int64_t filters, float *out);

/* Replaces the sums of a block of channels in place by outputs, for `pixels` neighbouring pixels. The first `there` filters
 * of the block exist. */
void gconv_layer_finish_block(const gconv_layer_problem *problem, const float *biases, int64_t there, int64_t pixels,
                              float *values);

/* Does what gconv_product_finish() does for outputs in blocks of channels: `rows` rows of `columns` pixels, of filters first
 * .. first + V * lanes - 1. Sums have no gaps. `out` is where block 0 has the first pixel. */
void gconv_product_finish_blocks(const gconv_product *product, const gconv_layer_problem *problem, const float *sums, int V,
                                 int64_t rows, int64_t columns, const float *biases, int64_t first, float *out);
/* Whether these outputs are too many for the caches: then they are written past them, without being read first, and
 * gconv_product_end_blocks() lets other threads see them before they see that the task has ended. */
bool gconv_product_streams(const gconv_layer_problem *problem);
void gconv_product_end_blocks(void);
