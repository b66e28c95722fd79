/* SPDX-License-Identifier: MIT */
/*
 * The pixels of common PNGs, faster than libpng has them: inflate by ISA-L on a thread of its own, row filters on the
 * caller's.
 *
 * libpng reads all chunks before the pixels and remains the judge: whatever is irregular after them, this reader only says
 * no, the source is taken back to where it began, and libpng reads on, with its own verdict and its own words.
 */
#ifndef GCONV_IMAGE_PNG_STREAM_H
#define GCONV_IMAGE_PNG_STREAM_H

#include "image/format.h"

typedef struct gconv_png_stream gconv_png_stream;

/* The pixels of `reader`, whose header is known and whose source stands behind the head of the first IDAT chunk, which has
 * `first_bytes` bytes. They are stored as 8 or 16 bits a sample, not interlaced, without palette or tRNS. A second thread is
 * used unless reader->threads is 1. NULL if this build has no ISA-L, or without memory. The source is the stream's until
 * gconv_png_stream_close(). */
gconv_png_stream *gconv_png_stream_open(gconv_reader *reader, uint32_t first_bytes);

/* Reads the next rows, as gconv_format.read_rows() does. The last of them are there only if all that follows them is right,
 * to the end of the file. False: the stream is irregular, and can only be closed. No error text is set. */
bool gconv_png_stream_rows(gconv_png_stream *stream, uint8_t *rows, size_t row_bytes, int32_t count);

/* NULL is allowed. */
void gconv_png_stream_close(gconv_png_stream *stream);

#endif
