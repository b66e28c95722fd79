/* SPDX-License-Identifier: MIT */
/*
 * Compresses filtered rows of pixels by deflate (RFC 1951): fast, and smaller on photos than general compressors at their
 * fast levels.
 *
 * Matches are looked for where pixels begin, and are whole pixels long. That is a third or a quarter of the work, and finds
 * what matters: colour channels vary together. A prefix code of single bytes cannot use this; a copy of an equal pixel can.
 */
#pragma once

#include "base/both.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* The workspace of one thread. */
typedef struct gconv_png_deflater gconv_png_deflater;

/* Fails only with GCONV_NO_MEMORY. */
gconv_status gconv_png_deflater_create(gconv_png_deflater **deflater);
/* NULL is allowed. */
void gconv_png_deflater_free(gconv_png_deflater *deflater);

/* Bytes that must be readable after the input. */
enum { GCONV_PNG_DEFLATE_SLACK = 16 };

/* The input. */
typedef struct gconv_png_lines {
  const uint8_t *bytes; /* each line is the number of a filter, and filtered pixels */
  size_t size;          /* bytes of all lines */
  size_t line;          /* bytes of a line */
  size_t pixel;         /* bytes of a pixel: 1, 2, 3, 4, 6 or 8 */
  bool matches;         /* true: matches are looked for; false: all bytes are literals */
} gconv_png_lines;

enum {
  GCONV_PNG_BLOCK_BYTES = 131072, /* bytes in a block: enough for a code to pay for its description of about 100 bytes */
  GCONV_PNG_STORED_BYTES = 65535, /* the most bytes of a stored block */
};

/* Returns the room that compressing `size` bytes needs. At worst, a block is stored: its bytes, in up to 4 parts, each with
 * a header of 5 bytes. There is room for a description of codes, too: it is written before storing is found shorter. */
GCONV_BOTH size_t gconv_png_deflate_bound(size_t size) {
  const size_t parts = 4, most_description = 512, mark = 16, room = 16;
  return size + (size / GCONV_PNG_BLOCK_BYTES + 1) * parts * 5 + most_description + mark + room;
}

/* Returns whether matches are worth their time, by the bits with and without them. They must save more than a 32nd, because
 * finding them takes longer than all other work. */
GCONV_BOTH bool gconv_png_matches_pay(uint64_t with, uint64_t without) {
  return with < without / 32 * 31;
}

/* Compresses the lines into out[0 .. gconv_png_deflate_bound(size)), and returns how many bytes it has made. These are whole
 * blocks. If `last`, the last block ends the stream. If not, an empty stored block follows, so that the next call begins at
 * a byte (a sync flush). Nothing is remembered from call to call: the same lines make the same bytes. */
size_t gconv_png_deflate(gconv_png_deflater *deflater, const gconv_png_lines *lines, bool last, uint8_t *out);

/* Returns about how many bits the first block of the lines would take without matches. */
uint64_t gconv_png_deflate_try_literals(gconv_png_deflater *deflater, const gconv_png_lines *lines);
/* Returns about how many bits the first block of the lines would take with matches. */
uint64_t gconv_png_deflate_try_matches(gconv_png_deflater *deflater, const gconv_png_lines *lines);
