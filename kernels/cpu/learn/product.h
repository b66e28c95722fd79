/* SPDX-License-Identifier: MIT */
/*
 * The two products of training, whose tiles keep their sums in registers:
 *
 *   gather: out[i][m] = sum over r of a[r][i] * b[offsets[r] + m]      outputs of a layer, and gradients of its inputs
 *   outer:  sums[i][k] (+)= sum over m of x[offsets[i] + m] * g[m][k]    gradients of weights
 *
 * Each sum is a chain of fmaf from +0 in the order of r, or of m.
 */
#ifndef GCONV_KERNELS_CPU_LEARN_PRODUCT_H
#define GCONV_KERNELS_CPU_LEARN_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  GCONV_LEARN_ROWS = 8,    /* of a tile, at most */
  GCONV_LEARN_VECTORS = 6, /* the same */
  GCONV_LEARN_SHAPES = 3,  /* of tiles, at most */
  GCONV_LEARN_SLACK = 48   /* floats behind the last one that gather may read of b, and outer may write */
};

typedef struct gconv_gather {
  const float *a; /* count rows of a_pitch floats */
  int64_t a_pitch;
  const int64_t *offsets;
  int64_t count;
  int64_t out_pitch; /* a multiple of the lanes, no less than what is computed */
} gconv_gather;

typedef struct gconv_outer {
  const int64_t *offsets; /* of the rows of the result */
  int64_t rows, x_pitch;  /* of x: m goes through rows of `columns` neighbours */
  int64_t columns;
  int64_t g_pitch;   /* floats from g[m] to g[m + 1]: a multiple of the lanes */
  int64_t out_pitch; /* the same of the result */
  bool begins;       /* sums begin at 0, whatever is in memory */
} gconv_outer;

typedef void gconv_gather_tile(const gconv_gather *gather, const float *a, const float *b, float *out);
typedef void gconv_outer_tile(const gconv_outer *outer, const int64_t *offsets, const float *x, const float *g, float *sums);

/* The largest tiles have so many rows and vectors. */
typedef struct gconv_learn_shape {
  int rows, vectors;
} gconv_learn_shape;

/* The tiles for a kind of processor: N rows times V vectors, up to each shape. */
typedef struct gconv_learn_tiles {
  int lanes;                                    /* of a vector */
  gconv_learn_shape shapes[GCONV_LEARN_SHAPES]; /* of gather, in ascending order of vectors; the first is that of outer */
  gconv_gather_tile *gather[GCONV_LEARN_ROWS + 1][GCONV_LEARN_VECTORS + 1];
  gconv_outer_tile *outer[GCONV_LEARN_ROWS + 1][GCONV_LEARN_VECTORS + 1];
} gconv_learn_tiles;

const gconv_learn_tiles *gconv_learn_tiles_here(void);

/* count, rounded up to whole vectors of this processor. */
int64_t gconv_learn_padded(int64_t count);

/* out[i * out_pitch + m] for i < rows and m < columns, with columns rounded up to whole vectors. */
void gconv_learn_gather(const gconv_gather *gather, int64_t rows, int64_t columns, const float *b, float *out);

/* sums[i * out_pitch + k] for i < count and k < filters, with filters rounded up to whole vectors. */
void gconv_learn_outer(const gconv_outer *outer, int64_t count, int64_t filters, const float *x, const float *g,
                       float *sums);

/* to[f * to_pitch + i] = from[i * from_pitch + f] for i < rows and f < columns. */
void gconv_learn_turn(const float *from, int64_t from_pitch, int64_t rows, int64_t columns, float *to, int64_t to_pitch);

#endif
