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

#include "base/status.h"

/* The workspace of one thread. */
typedef struct gconv_png_deflater gconv_png_deflater;

/* GCONV_NO_MEMORY. */
gconv_status gconv_png_deflater_create(gconv_png_deflater **deflater);
/* NULL is allowed. */
void gconv_png_deflater_free(gconv_png_deflater *deflater);

/* Bytes that must be readable behind the input. */
enum { GCONV_PNG_DEFLATE_SLACK = 16 };

typedef enum gconv_png_content {
  GCONV_PNG_MIXED,    /* matches of any length; blocks of literals where they do not pay */
  GCONV_PNG_LITERALS, /* nothing repeats that is worth looking for */
  GCONV_PNG_PIXELS,   /* noise in pixels of 3 bytes, of which single ones repeat */
} gconv_png_content;

/* What is compressed. */
typedef struct gconv_png_lines {
  const uint8_t *bytes; /* lines of a filter's number and its pixels */
  size_t size;          /* of all lines */
  size_t line;          /* of one */
  size_t pixel;         /* 1, 2, 3, 4, 6 or 8 */
  gconv_png_content content;
} gconv_png_lines;

/* The bytes that `size` bytes may become, with room to work in. */
size_t gconv_png_deflate_bound(size_t size);

/* Compresses the lines into out[0 .. gconv_png_deflate_bound(size)) and returns the bytes made: whole blocks, of which the
 * last ends the stream if `last`, else is followed by an empty stored block, so that the next begins at a byte (a sync
 * flush). Nothing is remembered from call to call: the same lines make the same bytes. */
size_t gconv_png_deflate(gconv_png_deflater *deflater, const gconv_png_lines *lines, bool last, uint8_t *out);

/* Trials look at no more bytes than this. */
enum { GCONV_PNG_MOST_TRIED = 131072 };

/* About how many bits the lines from `begin` on would become as GCONV_PNG_LITERALS. */
uint64_t gconv_png_deflate_try_literals(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin);

/* The same with matches, also of what stands in the lines before. *single: GCONV_PNG_PIXELS may be had, and most matches are
 * of one pixel. */
uint64_t gconv_png_deflate_try_matches(gconv_png_deflater *deflater, const gconv_png_lines *lines, size_t begin,
                                       bool *single);

#endif
