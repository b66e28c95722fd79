/* SPDX-License-Identifier: MIT */
/* Products of weights and samples for gemm and winograd, with neighbouring filters in vectors. A tile has N pixels times V
 * vectors of filters, with its sums in registers while taps are added. Then the sums are transposed to planes of outputs. */
#pragma once

#include "stage.h"

enum {
  GCONV_PRODUCT_PIXELS = 14, /* of the widest tile */
  GCONV_PRODUCT_VECTORS = 2, /* of filters */
  GCONV_PRODUCT_LANES = 16,  /* of a vector, at most */
};

/* The operand of a tile: the taps of some channels for V vectors of filters. */
typedef struct gconv_panel {
  const float *weights;   /* [channel][tap][filter] */
  const int64_t *offsets; /* of the taps, from the pixel's sample on */
  int64_t channel;        /* floats from one channel of the samples to the next */
  int64_t step;           /* floats from one pixel's samples to the next one's */
  int32_t channels, taps;
  bool begins; /* sums begin at 0, whatever is in memory */
  bool half;   /* of V = 1 vectors, the lower half alone is wanted */
} gconv_panel;

/* sums[i][filter] += all taps of the panel, in their order, for the pixels i = 0 .. N - 1 at x. */
typedef void gconv_product_tile(const gconv_panel *panel, const float *x, float *sums);

typedef struct gconv_product {
  int lanes, pixels; /* of a vector; of the widest tile */
  /* to[f * pitch + i] = from[i * stride + f] + biases[f] for i, f < lanes */
  void (*turn)(const float *from, int64_t stride, const float *biases, float *to, int64_t pitch);
  /* [0][N][V] for panels whose step is 1, [1][N][V] for those of any step; V = 0: half a vector, NULL on some processors */
  gconv_product_tile *tiles[2][GCONV_PRODUCT_PIXELS + 1][GCONV_PRODUCT_VECTORS + 1];
} gconv_product;

/* Returns the product for this processor. */
const gconv_product *gconv_product_here(void);

/* Processes a row of `count` pixels in tiles of about equal width. The first pixel is at x; sums have V vectors for each
 * pixel. */
void gconv_product_row(const gconv_product *product, const gconv_panel *panel, const float *x, int64_t count, int V,
                       float *sums);

/* out[f * plane + i] = activation(sums[i * stride + f] + biases[f]) for i < pixels and f < filters, where filters is at most
 * a vector. */
void gconv_product_finish(const gconv_product *product, const gconv_layer_problem *problem, const float *sums,
                          int64_t stride, int64_t pixels, const float *biases, int64_t filters, float *out);
