/* SPDX-License-Identifier: MIT */
/*
 * Reads the pixels of most PNGs without libpng: ISA-L inflates them faster than zlib, and vector code undoes row filters.
 *
 * Only libpng decides that a file is damaged. At anything irregular, gconv_png_inflate_rows() just returns false. Then
 * libpng reads the file again from its beginning, and reports what is wrong. (ISA-L accepts incomplete prefix codes, which
 * zlib refuses: such a file is read if its checksums are right.)
 */
#pragma once

#include "image/format.h"

typedef struct gconv_png_inflate gconv_png_inflate;

/* Begins to read an image that is not interlaced, and whose rows have the samples of `header` as they are, in big-endian
 * order. `source` is after the head of the first IDAT chunk, which has `chunk_bytes`. Returns NULL, and changes nothing, if
 * zlib must inflate: there is no ISA-L or no memory, the source cannot rewind, the stream is unusual, or rows are long. */
gconv_png_inflate *gconv_png_inflate_open(gconv_source *source, size_t chunk_bytes, const gconv_image *header);

/* Reads the next `count` rows to rows + i * row_bytes. Returns false if the file is irregular. With the last row, the rest
 * of the file is read, too. */
bool gconv_png_inflate_rows(gconv_png_inflate *inflate, uint8_t *rows, size_t row_bytes, int32_t count);

/* Returns about the most memory that reading an image like `header` takes. */
size_t gconv_png_inflate_bytes(const gconv_image *header);

/* NULL is allowed. */
void gconv_png_inflate_close(gconv_png_inflate *inflate);
