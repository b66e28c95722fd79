/* SPDX-License-Identifier: MIT */
/*
 * Whether a GPU makes the PNG that it should. A compiler, or a driver's, that gets a kernel wrong would otherwise be told by
 * damaged files alone: so each GPU first makes a small picture, which is held to what the CPU makes of it, byte by byte.
 *
 * The picture is of two strips, with all that a strip of literals may have: a block that is stored in several parts, such as
 * have codes, of all lengths up to the longest; the mark between strips, and the end of the stream.
 */
#ifndef GCONV_CODEC_CUDA_PNG_CHECK_H
#define GCONV_CODEC_CUDA_PNG_CHECK_H

#include "image/gpu_codec.h"

enum {
  GCONV_PNG_CHECK_ROWS = 250, /* of a strip, fewer than gconv_png_strip_rows() */
  GCONV_PNG_CHECK_STRIPS = 2,
};

/* The picture, and room to make PNG of it. */
typedef struct gconv_png_check gconv_png_check;

#ifdef __cplusplus
extern "C" {
#endif

/* GCONV_NO_MEMORY. */
gconv_status gconv_png_check_create(gconv_png_check **check);
/* NULL is allowed. */
void gconv_png_check_free(gconv_png_check *check);

/* Of u8, without gaps between its rows. */
const gconv_image *gconv_png_check_picture(const gconv_png_check *check);

/* Makes the chunk of this strip, by its number, which the next call overwrites; all of *strip but `offset` is set. */
const uint8_t *gconv_png_check_chunk(gconv_png_check *check, gconv_png_strip *strip, size_t number);

/* GCONV_UNSUPPORTED unless the strips are those of the picture, and `chunks`, of `size` bytes, holds them. */
gconv_status gconv_png_check_strips(gconv_png_check *check, const gconv_png_strip *strips, const uint8_t *chunks,
                                    size_t size);

#ifdef __cplusplus
}
#endif
#endif
