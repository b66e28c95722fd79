/* SPDX-License-Identifier: MIT */
/*
 * Checks the PNG encoder of a GPU. If the compiler, or the driver's compiler, gets a kernel wrong, files would be damaged
 * without a warning. So each GPU first encodes a small picture, and its bytes are compared with the CPU's.
 *
 * The picture has two strips, with everything that a strip of literals can have: a block that is stored in several parts,
 * blocks with codes of all lengths up to the longest, the mark between strips, and the end of the stream.
 */
#pragma once

#include "base/both.h"
#include "image/gpu_codec.h"

enum {
  GCONV_PNG_CHECK_ROWS = 250, /* rows of a strip: fewer than gconv_png_strip_rows() yields */
  GCONV_PNG_CHECK_STRIPS = 2,
};

/* The picture, and room to make PNG of it. */
typedef struct gconv_png_check gconv_png_check;

GCONV_C_BEGIN

/* Fails only with GCONV_NO_MEMORY. */
gconv_status gconv_png_check_create(gconv_png_check **check);
/* NULL is allowed. */
void gconv_png_check_free(gconv_png_check *check);

/* Returns the picture: u8, without gaps between rows. */
const gconv_image *gconv_png_check_picture(const gconv_png_check *check);

/* Makes the chunk of strip `number`, and sets *strip except for `offset`. The next call overwrites the chunk. */
const uint8_t *gconv_png_check_chunk(gconv_png_check *check, gconv_png_strip *strip, size_t number);

/* Fails with GCONV_UNSUPPORTED unless the strips, and their chunks in `chunks`, of `size` bytes, are those that the CPU
 * makes. */
gconv_status gconv_png_check_strips(gconv_png_check *check, const gconv_png_strip *strips, const uint8_t *chunks,
                                    size_t size);

GCONV_C_END
