/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes tags of a page that are neither its layout nor EXIF: where its pixels lie on Earth (GeoTIFF), how far
 * apart they are and what its axes mean (ImageJ, OME, tifffile), names. Results keep a tag if it is true of them: places on
 * Earth, if the size stays; distances and axes, if the whole shape stays.
 *
 * gconv_image.tags has the tags as records, in the byte order of this machine. The first record is the shape of the image
 * that the tags describe.
 */
#pragma once

#include "image/directory.h"
#include "image/tiff.h"

/* Reads the tags of the page whose directory is at this position into the header's tags, and reports tags that are left out.
 * `pages`: how many pages have the same place on Earth. `described`: a description of the layout is right, if any. */
gconv_status gconv_tiff_read_tags(gconv_reader *reader, const gconv_source *source, uint64_t directory, int32_t pages,
                                  bool described);

/* Returns a checksum of a page's place on Earth; 1 if it has none. */
uint32_t gconv_tiff_place_sum(const gconv_source *source, uint64_t directory);

/* Returns whether the description tells programs how the file is laid out. Then it is kept as a tag, and is no comment. */
bool gconv_tiff_is_layout(const char *description);

/* Sets the tags that the header has and that are true of it, for a page being written. At the first page, warnings name tags
 * that are left out. *description says whether the description was set. */
gconv_status gconv_tiff_write_tags(gconv_tiff_file *file, const gconv_image *header, bool first, bool *description);
