/* SPDX-License-Identifier: MIT */
/* Making the strips of a PNG on the CPU, one at a time: filtered, compressed, and framed as an IDAT chunk. */
#ifndef GCONV_IMAGE_PNG_ENCODE_H
#define GCONV_IMAGE_PNG_ENCODE_H

#include "base/both.h"
#include "image/png_strip.h"

/* What all strips of an image have in common. */
typedef struct gconv_png_shape {
  size_t row_bytes, pixel; /* pixel: 1, 2, 3, 4, 6 or 8 bytes */
  size_t strip_rows;       /* of a strip at most */
  bool swap;               /* samples have two bytes, and this machine's order is not the file's */
  int level;               /* 0 to 9; GCONV_PNG_FAST_LEVEL is our own deflate, the others are zlib's */
} gconv_png_shape;

/* The rows of a strip. */
typedef struct gconv_png_rows {
  const uint8_t *rows, *above; /* the row above the first; zeros above the image */
  size_t stride, count;        /* stride: bytes from row to row */
  bool first, last;            /* of the image */
} gconv_png_rows;

/* The workspace of one thread. */
typedef struct gconv_png_strip_encoder gconv_png_strip_encoder;

GCONV_C_BEGIN

/* GCONV_NO_MEMORY. */
gconv_status gconv_png_strip_encoder_create(const gconv_png_shape *shape, gconv_png_strip_encoder **encoder);
/* NULL is allowed. */
void gconv_png_strip_encoder_free(gconv_png_strip_encoder *encoder);

/* The room that the chunk of any strip takes. */
size_t gconv_png_strip_encoder_room(const gconv_png_strip_encoder *encoder);

/* Makes the chunk, with that room, and returns its size; *adler is that of the lines. */
size_t gconv_png_encode_strip(gconv_png_strip_encoder *encoder, const gconv_png_rows *rows, uint8_t *chunk, uint32_t *adler);

/* Frames `size` bytes that stand GCONV_PNG_CHUNK_HEAD behind `chunk`; returns the size of the whole chunk. */
size_t gconv_png_frame_chunk(uint8_t *chunk, const char *type, size_t size);
/* Puts four bytes, the highest first. */
void gconv_png_put_be32(uint8_t *bytes, uint32_t value);

GCONV_C_END
#endif
