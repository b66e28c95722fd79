/* SPDX-License-Identifier: MIT */
/*
 * The pixels of common PNGs, faster than libpng has them: inflated by inflate.c on a thread of its own, row filters on the
 * caller's.
 *
 * libpng reads all chunks before the pixels and remains the judge: whatever is irregular after them, this reader only says
 * no, the source is taken back to where it began, and libpng reads on, with its own verdict and its own words.
 */
#ifndef GCONV_IMAGE_PNG_STREAM_H
#define GCONV_IMAGE_PNG_STREAM_H

#include "image/format.h"
#include "image/png_samples.h"

typedef struct gconv_png_stream gconv_png_stream;

/* The pixels of `reader`, whose header is known and whose source stands behind the head of the first IDAT chunk, which has
 * `first_bytes` bytes. They are not interlaced, and stored as 8 or 16 bits a sample, without palette or tRNS; or as
 * `samples` say, which stay the caller's and as they are. A second thread is used unless reader->threads is 1. NULL without
 * memory. The source is the stream's until gconv_png_stream_close(). */
gconv_png_stream *gconv_png_stream_open(gconv_reader *reader, const gconv_png_samples *samples, uint32_t first_bytes);

/* Reads the next rows, as gconv_format.read_rows() does. The last of them are there only if all that follows them is right,
 * to the end of the file. False: the stream is irregular, and can only be closed. No error text is set. */
bool gconv_png_stream_rows(gconv_png_stream *stream, uint8_t *rows, size_t row_bytes, int32_t count);

/* NULL is allowed. */
void gconv_png_stream_close(gconv_png_stream *stream);

#endif
