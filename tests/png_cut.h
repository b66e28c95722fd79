/* SPDX-License-Identifier: MIT */
/* The strips of a PNG made by png_write.c, as a device would make them. For tests of what the host does with such strips. */
#ifndef GCONV_TESTS_PNG_CUT_H
#define GCONV_TESTS_PNG_CUT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct png_cut {
  const uint8_t *chunk; /* a whole IDAT */
  size_t size;
  uint32_t adler; /* of its lines */
  size_t lines;   /* their bytes */
} png_cut;

static inline uint32_t png_cut_be32(const uint8_t *bytes) {
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Each strip is a stream of deflate by itself; the first stands behind zlib's two bytes. */
static inline void png_cut_inflate(png_cut *strip, int first) {
  static const size_t ROOM = (size_t)4 << 20;
  uint8_t *lines = malloc(ROOM);
  z_stream stream = {.next_in = (z_const Bytef *)(strip->chunk + 8 + 2 * first),
                     .avail_in = (uInt)strip->size - 12 - 2 * (uInt)first,
                     .next_out = lines,
                     .avail_out = (uInt)ROOM};
  if (lines && inflateInit2(&stream, -15) == Z_OK) {
    inflate(&stream, Z_SYNC_FLUSH);
    strip->lines = ROOM - stream.avail_out;
    strip->adler = (uint32_t)adler32(1, lines, (uInt)strip->lines);
    inflateEnd(&stream);
  }
  free(lines);
}

/* Finds the strips of a file, up to `most`; returns how many there are, or 0 without memory. */
static inline size_t png_cut_strips(const uint8_t *file, size_t size, png_cut *strips, size_t most) {
  const size_t signature = 8, adler_chunk = 16;
  size_t count = 0;
  for (size_t at = signature; at + 12 <= size && count < most; at += png_cut_be32(file + at) + 12) {
    png_cut strip = {.chunk = file + at, .size = png_cut_be32(file + at) + 12};
    if (memcmp(strip.chunk + 4, "IDAT", 4) != 0 || strip.size == adler_chunk)
      continue;
    png_cut_inflate(&strip, count == 0);
    if (strip.lines == 0)
      return 0;
    strips[count++] = strip;
  }
  return count;
}

#endif
