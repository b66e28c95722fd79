/* SPDX-License-Identifier: MIT */
/* Makes the strips of a PNG on the CPU, one at a time: filtered, compressed, and framed as an IDAT chunk. */
#pragma once

#include "base/both.h"
#include "image/png_strip.h"

/* What all strips of an image have in common. */
typedef struct gconv_png_shape {
  size_t row_bytes, pixel; /* bytes of a row; bytes of a pixel: 1, 2, 3, 4, 6 or 8 */
  size_t strip_rows;       /* the most rows of a strip */
  bool swap;               /* samples have two bytes, and this machine's order is not the file's */
  int level;               /* 0 to 9; GCONV_PNG_FAST_LEVEL is our own deflate, the others are zlib's */
} gconv_png_shape;

/* The rows of a strip. */
typedef struct gconv_png_rows {
  const uint8_t *rows, *above; /* the rows; the row above them, zeros at the top of the image */
  size_t stride, count;        /* bytes from row to row; number of rows */
  bool first, last;            /* whether this is the first or the last strip of the image */
} gconv_png_rows;

/* The workspace of one thread. */
typedef struct gconv_png_strip_encoder gconv_png_strip_encoder;

GCONV_C_BEGIN

/* Fails only with GCONV_NO_MEMORY. */
gconv_status gconv_png_strip_encoder_create(const gconv_png_shape *shape, gconv_png_strip_encoder **encoder);
/* NULL is allowed. */
void gconv_png_strip_encoder_free(gconv_png_strip_encoder *encoder);

/* Returns the most bytes that the chunk of a strip can take. */
size_t gconv_png_strip_encoder_room(const gconv_png_strip_encoder *encoder);

/* Makes the chunk of a strip in `chunk`, which has gconv_png_strip_encoder_room() bytes. Returns its size. *adler becomes
 * the Adler-32 of the filtered lines. */
size_t gconv_png_encode_strip(gconv_png_strip_encoder *encoder, const gconv_png_rows *rows, uint8_t *chunk, uint32_t *adler);

/* Makes a chunk of the `size` bytes at chunk + GCONV_PNG_CHUNK_HEAD: adds length, type and CRC. Returns the chunk's size. */
size_t gconv_png_frame_chunk(uint8_t *chunk, const char *type, size_t size);
/* Puts four bytes, the highest first. */
void gconv_png_put_be32(uint8_t *bytes, uint32_t value);

GCONV_C_END
