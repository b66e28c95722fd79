/* SPDX-License-Identifier: MIT */
/*
 * Features of pixels on a GPU, with the bytes of kernels/cpu/smooth.h and of the formulas in kernels/feature_math.h.
 *
 *     rows of an image -> gconv_feature_convert() -> a plane of floats
 *       for each scale:   gconv_feature_columns()  smooths in y, order 0 to 2: passes
 *                         gconv_feature_lines()    smooths the passes in x; planes and features follow in registers
 *       for edges and texture: gconv_feature_edges(), gconv_feature_texture() of a plane that was kept
 *
 * Functions start kernels on `stream` and return at once; cudaGetLastError() returns their failure. Pointers to floats
 * are to device memory. gconv_feature_tiles has the rows that are computed. Features have rows of `width` floats.
 */
#pragma once

#include "gconv.h"
#include "kernels/cpu/smooth.h"

#include <cuda_runtime_api.h>

enum { GCONV_FEATURE_GPU_TAPS = 257 /* from the middle on: of the largest sigma */ };

/* A Gaussian and its derivatives. */
typedef struct gconv_feature_taps {
  int32_t radius;
  float taps[GCONV_SMOOTH_ORDERS][GCONV_FEATURE_GPU_TAPS];
} gconv_feature_taps;

/* How the computed rows are cut into tiles. If the first sample of a tile is subtracted from its pixels
 * (gconv_feature_samples.origins), the tiles are those of the CPU, which overlap. Otherwise there is one tile. */
typedef struct gconv_feature_tiles {
  int32_t height, width; /* height and width of the image */
  int32_t first, rows;   /* rows of the image that are computed: first .. first + rows - 1 */
  int32_t tile_rows, tile_columns, across, down;
  int32_t rim; /* planes have this many more rows above and below a tile and, if tiles overlap, columns beside it */
  bool overlap;
} gconv_feature_tiles;

/* Where samples come from. */
typedef struct gconv_feature_samples {
  const float *plane;  /* rows of `width` floats; the first is row `top` of the image */
  const float *second; /* NULL, or an array of the same shape: samples are products of both arrays */
  int32_t top, rows;
  gconv_border border;
  bool origins; /* the first sample of each tile, if it is finite, is subtracted from all samples of the tile */
} gconv_feature_samples;

/* The outputs of the passes. NULL: not wanted. */
typedef struct gconv_feature_outputs {
  float *smooth;                        /* the Gaussian, unless `from` or `origins` is set */
  const float *from;                    /* if set, `smooth` is this feature minus the Gaussian */
  const gconv_feature_samples *origins; /* if set, `smooth` is the Gaussian plus the tile's origin */
  float *log, *gradient, *hessian[2];   /* features */
  float *kept, *kept_x, *kept_y;        /* planes of tiles with their rims: the Gaussian, its derivatives in x and in y */
  float *tensor[2]; /* if not NULL, passes are three products, smoothed in y, and all other outputs must be NULL */
} gconv_feature_outputs;

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the floats of one pass. */
size_t gconv_feature_pass_floats(const gconv_feature_tiles *tiles, int32_t radius);
/* Returns the floats of one plane with its rim. */
size_t gconv_feature_plane_floats(const gconv_feature_tiles *tiles);

/* Returns how many passes the outputs need: one for each order in y, from 0 on. */
int gconv_feature_orders(const gconv_feature_outputs *outputs);

/* gconv_feature_columns() makes the passes. gconv_feature_lines() makes the outputs from them. Pass d begins at
 * passes + d * gconv_feature_pass_floats(). */
void gconv_feature_columns(const gconv_feature_tiles *tiles, const gconv_feature_taps *taps,
                           const gconv_feature_samples *source, int orders, float *passes, cudaStream_t stream);
void gconv_feature_lines(const gconv_feature_tiles *tiles, const gconv_feature_taps *taps, const float *passes,
                         const gconv_feature_outputs *outputs, cudaStream_t stream);

/* Features of a plane that was kept: gconv_feature_edges() needs a rim of 1 pixel, gconv_feature_texture() of 2 pixels. */
void gconv_feature_edges(const gconv_feature_tiles *tiles, const float *kept, float *out, cudaStream_t stream);
void gconv_feature_texture(const gconv_feature_tiles *tiles, const float *kept, float *large, float *small,
                           cudaStream_t stream);

/* Converts a channel of `rows` rows of an image to floats; integers are divided by white. greys: converts the first three
 * channels to grey instead. Pixels are in device memory, interleaved or planar. */
void gconv_feature_convert(const gconv_image *image, int32_t channel, bool greys, int32_t rows, float *plane,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif
