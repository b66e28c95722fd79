/* SPDX-License-Identifier: MIT */
/*
 * Deflate (RFC 1951) for filtered rows of pixels: fast, and smaller on photos than general compressors at their fast levels.
 *
 * Matches are looked for where pixels begin, and are whole pixels long. That is a third or a quarter of the work, and finds
 * what matters: colour channels vary together, and a prefix code of single bytes cannot know, but a copy of a like pixel
 * from the rows before does.
 */
#ifndef GCONV_IMAGE_PNG_DEFLATE_H
#define GCONV_IMAGE_PNG_DEFLATE_H

#include "base/both.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* The workspace of one thread. */
typedef struct gconv_png_deflater gconv_png_deflater;

/* GCONV_NO_MEMORY. */
gconv_status gconv_png_deflater_create(gconv_png_deflater **deflater);
/* NULL is allowed. */
void gconv_png_deflater_free(gconv_png_deflater *deflater);

/* Bytes that must be readable behind the input. */
enum { GCONV_PNG_DEFLATE_SLACK = 16 };

/* What is compressed. */
typedef struct gconv_png_lines {
  const uint8_t *bytes; /* lines of a filter's number and its pixels */
  size_t size;          /* of all lines */
  size_t line;          /* of one */
  size_t pixel;         /* 1, 2, 3, 4, 6 or 8 */
  bool matches;         /* are looked for; else all bytes are literals */
} gconv_png_lines;

enum {
  GCONV_PNG_BLOCK_BYTES = 131072, /* of lines in a block, enough for a code to pay for its description, about 100 bytes */
  GCONV_PNG_STORED_BYTES = 65535, /* at most, in a stored block */
};

/* The bytes that deflate makes at most of `size` bytes, with room to work in. A block never takes more than it does stored,
 * in up to 4 parts of 5 more bytes each; but its codes are described before that is known. */
GCONV_BOTH size_t gconv_png_deflate_bound(size_t size) {
  const size_t parts = 4, most_description = 512, mark = 16, room = 16;
  return size + (size / GCONV_PNG_BLOCK_BYTES + 1) * parts * 5 + most_description + mark + room;
}

/* Whether matches are worth having, by the bits with and without them: they take longer to find than all the rest. */
GCONV_BOTH bool gconv_png_matches_pay(uint64_t with, uint64_t without) {
  return with < without / 32 * 31;
}

/* Compresses the lines into out[0 .. gconv_png_deflate_bound(size)) and returns the bytes made: whole blocks, of which the
 * last ends the stream if `last`, else is followed by an empty stored block, so that the next begins at a byte (a sync
 * flush). Nothing is remembered from call to call: the same lines make the same bytes. */
size_t gconv_png_deflate(gconv_png_deflater *deflater, const gconv_png_lines *lines, bool last, uint8_t *out);

/* About how many bits the first block of the lines would take without matches, and with them. */
uint64_t gconv_png_deflate_try_literals(gconv_png_deflater *deflater, const gconv_png_lines *lines);
uint64_t gconv_png_deflate_try_matches(gconv_png_deflater *deflater, const gconv_png_lines *lines);

#endif
