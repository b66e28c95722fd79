/* SPDX-License-Identifier: MIT */
/* The lines of a PNG out of its IDAT chunks, in order, by one thread, which others can help: they inflate what comes later.
 */
#ifndef GCONV_IMAGE_PNG_INFLATE_H
#define GCONV_IMAGE_PNG_INFLATE_H

#include "base/file.h"
#include "image/inflate.h"

typedef struct gconv_png_inflate gconv_png_inflate;

/* `source` stands behind the head of the first IDAT chunk, which has `first_bytes` bytes. `threads` use it, at most: with 1,
 * nobody helps. NULL without memory. */
gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, uint32_t first_bytes, int threads);

/* The next `bytes`, to `lines`. Before them there is room for GCONV_INFLATE_WINDOW bytes, behind them for
 * GCONV_INFLATE_BEYOND; all of that stays as it is until the next lines are there. False if the stream is wrong, or ends. */
bool gconv_png_inflate_lines(gconv_png_inflate *inflate, uint8_t *lines, size_t bytes);

/* Then: whether the stream ends there, and nothing that concerns pixels follows. *adler is what its checksum should be. */
bool gconv_png_inflate_end(gconv_png_inflate *inflate, uint32_t *adler);

/* For other threads, at any time between open and close: inflates some of what comes later; false if there is nothing to be
 * done now. */
bool gconv_png_inflate_help(gconv_png_inflate *inflate);

/* For threads that do nothing else: waits until there is something; false if there will be nothing any more, or somebody
 * calls gconv_png_inflate_quit(). */
bool gconv_png_inflate_wait(gconv_png_inflate *inflate);
void gconv_png_inflate_quit(gconv_png_inflate *inflate);

/* NULL is allowed. Nobody helps any more. */
void gconv_png_inflate_close(gconv_png_inflate *inflate);

#endif
