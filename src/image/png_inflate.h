/* SPDX-License-Identifier: MIT */
/*
 * PNG's pixels inflated by ISA-L, for libpng to read on.
 *
 * zlib inflates slowly, and libpng undoes row filters without vector code where it was built so. Both are done here, ahead
 * of libpng: it gets IDAT chunks in which each row has filter 0 and lies in stored blocks of deflate, which zlib only
 * copies. So framing, palettes, depths, transparency and interlacing stay libpng's.
 *
 * libpng also stays the judge: at anything irregular, gconv_png_inflate_read() only says no. Then the file is read again by
 * libpng alone, with its own verdict and its own words. (ISA-L takes incomplete prefix codes, which zlib refuses: such a
 * file is read if its checksums are right.)
 */
#ifndef GCONV_IMAGE_PNG_INFLATE_H
#define GCONV_IMAGE_PNG_INFLATE_H

#include "base/file.h"

typedef struct gconv_png_inflate gconv_png_inflate;

/* What rows of the file look like. */
typedef struct gconv_png_shape {
  uint32_t width, height;
  uint32_t pixel_bits; /* 1 to 64 */
  bool interlaced;
} gconv_png_shape;

enum { GCONV_PNG_HEAD = 8 }; /* bytes before those of a chunk: how many they are, and its type */

/* `source` stands behind the head of the first IDAT chunk, which is replaced by that of the first chunk for libpng. NULL,
 * and nothing is changed, if zlib has to do it: without ISA-L or memory, where the source cannot go back, for odd streams
 * and very long rows. */
gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, const gconv_png_shape *shape, uint8_t head[GCONV_PNG_HEAD]);

/* The bytes that libpng asks for next. False if the stream is irregular. The last IDAT chunk is given only if the stream
 * ends there with the right checksum; behind it come the bytes of the file that follow the pixels. */
bool gconv_png_inflate_read(gconv_png_inflate *inflate, uint8_t *bytes, size_t size);

/* About how much memory this takes, at most. */
size_t gconv_png_inflate_bytes(const gconv_png_shape *shape);

/* NULL is allowed. */
void gconv_png_inflate_close(gconv_png_inflate *inflate);

#endif
