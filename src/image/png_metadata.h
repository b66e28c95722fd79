/* SPDX-License-Identifier: MIT */
/* EXIF, XMP and comments in PNG: in eXIf, tEXt, zTXt and iTXt chunks, and in the "raw profiles" of ImageMagick. */
#pragma once

#include "image/format.h"

/* The names of the chunks that gconv_png_take_chunk() knows, each with a 0 after it. */
#define GCONV_PNG_METADATA_CHUNKS "eXIf\0tEXt\0zTXt\0iTXt\0"

/* Returns whether a chunk of this type has metadata that are kept. */
bool gconv_png_is_metadata(const char *type, const uint8_t *data, size_t size);

/* Copies the metadata of a chunk into the reader's header. If the chunk is damaged, adds a note. */
gconv_status gconv_png_take_chunk(gconv_reader *reader, const char *type, const uint8_t *data, size_t size);

/* Goes through the chunks after the first IDAT chunk of an image. The `idat_bytes` of its data come next in the source,
 * which can go back, and whose position does not change. With `take`, metadata found there are taken. *end becomes the
 * position after the last chunk, or 0 if that chunk is missing. */
gconv_status gconv_png_look_ahead(gconv_reader *reader, size_t idat_bytes, bool take, uint64_t *end);

/* Writes EXIF, XMP and the comment of the header. */
gconv_status gconv_png_write_metadata(gconv_writer *writer);
