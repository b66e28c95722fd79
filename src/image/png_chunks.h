/* SPDX-License-Identifier: MIT */
/* The IDAT chunks of a PNG and what follows them, with their checksums. */
#ifndef GCONV_IMAGE_PNG_CHUNKS_H
#define GCONV_IMAGE_PNG_CHUNKS_H

#include "base/file.h"

typedef struct gconv_png_chunks {
  gconv_source *source;
  uint8_t type[4];
  size_t left; /* bytes of the chunk */
  uint32_t crc;
} gconv_png_chunks;

/* `source` stands behind the head of the first IDAT chunk, which has `first_bytes` bytes. */
void gconv_png_chunks_begin(gconv_png_chunks *chunks, gconv_source *source, uint32_t first_bytes);

/* Reads `wanted` bytes of the IDAT chunks; *got is smaller only where they end: then the next chunk has begun. False if
 * something is wrong. */
bool gconv_png_chunks_read(gconv_png_chunks *chunks, uint8_t *bytes, size_t wanted, size_t *got);

/* Then: skips chunks that say nothing of pixels, to the end of the last one, IEND. False if something is wrong, or other
 * chunks are there. */
bool gconv_png_chunks_skip_to_end(gconv_png_chunks *chunks);

#endif
