/* SPDX-License-Identifier: MIT */
/*
 * Features of pixels on a GPU, with the bytes of kernels/cpu/smooth.h and of the formulas in kernels/feature_math.h.
 *
 *     rows of an image -> gconv_feature_convert() -> a plane of floats
 *       for each scale:   gconv_feature_columns()  smooths in y, order 0 to 2: passes
 *                         gconv_feature_lines()    smooths the passes in x; planes and features follow in registers
 *       for edges and texture: gconv_feature_edges(), gconv_feature_texture() of a plane that was kept
 *
 * Functions start kernels on `stream` and return at once: cudaGetLastError() tells of failures. Pointers to floats are to
 * memory of the device. Rows that are made are those of gconv_feature_tiles; features have rows of `width` floats.
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

/* How the rows that are made are cut into tiles. If a sample of each tile is taken off its pixels first
 * (gconv_feature_samples.origins), tiles are those of the CPU, and overlap. Else there is one tile. */
typedef struct gconv_feature_tiles {
  int32_t height, width; /* of the image */
  int32_t first, rows;   /* rows of the image that are made: first .. first + rows - 1 */
  int32_t tile_rows, tile_columns, across, down;
  int32_t rim; /* rows above and below a tile of which planes are made, too; if tiles overlap, also columns beside it */
  bool overlap;
} gconv_feature_tiles;

/* Where samples come from. */
typedef struct gconv_feature_samples {
  const float *plane;  /* rows of `width` floats; the first is row `top` of the image */
  const float *second; /* NULL, or: of the same shape; samples are products of both */
  int32_t top, rows;
  gconv_border border;
  bool origins; /* the first sample of each tile, if it is finite, is taken off all its samples */
} gconv_feature_samples;

/* The outputs of the passes. NULL: not wanted. */
typedef struct gconv_feature_outputs {
  float *smooth;                        /* the Gaussian ... */
  const float *from;                    /* ... or, if this is not NULL, what is here less the Gaussian ... */
  const gconv_feature_samples *origins; /* ... or the Gaussian and the tile's origin */
  float *log, *gradient, *hessian[2];   /* features */
  float *kept, *kept_x, *kept_y;        /* planes with their rims, of tiles: the Gaussian, its derivatives in x and y */
  float *tensor[2];                     /* the passes are three products, smoothed in y, and nothing else is wanted */
} gconv_feature_outputs;

#ifdef __cplusplus
extern "C" {
#endif

/* Floats of one pass, and of one plane with its rim. */
size_t gconv_feature_pass_floats(const gconv_feature_tiles *tiles, int32_t radius);
size_t gconv_feature_plane_floats(const gconv_feature_tiles *tiles);

/* The order in y that the outputs need: passes 0 .. orders - 1. */
int gconv_feature_orders(const gconv_feature_outputs *outputs);

/* Pass d begins at passes + d * gconv_feature_pass_floats(). */
void gconv_feature_columns(const gconv_feature_tiles *tiles, const gconv_feature_taps *taps,
                           const gconv_feature_samples *source, int orders, float *passes, cudaStream_t stream);
void gconv_feature_lines(const gconv_feature_tiles *tiles, const gconv_feature_taps *taps, const float *passes,
                         const gconv_feature_outputs *outputs, cudaStream_t stream);

/* Features of a plane that was kept, with a rim of 1 and of 2 pixels. */
void gconv_feature_edges(const gconv_feature_tiles *tiles, const float *kept, float *out, cudaStream_t stream);
void gconv_feature_texture(const gconv_feature_tiles *tiles, const float *kept, float *large, float *small,
                           cudaStream_t stream);

/* A channel of `rows` rows of an image as floats, integers divided by white; or, with `greys`, what grey its first three
 * channels are. The pixels are in memory of the device; `channel` is that of an interleaved image, or of a planar one. */
void gconv_feature_convert(const gconv_image *image, int32_t channel, bool greys, int32_t rows, float *plane,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif
