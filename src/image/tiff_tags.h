/* SPDX-License-Identifier: MIT */
/*
 * Tags of a page that are neither its layout nor EXIF: where its pixels lie on Earth (GeoTIFF), how far apart they are and
 * what its axes mean (ImageJ, OME, tifffile), names. Results keep them as long as they are true: the first as long as the
 * size stays, the second as long as the whole shape stays.
 *
 * gconv_image.tags has them as records, in the byte order of this machine; the first one is the shape that they are of.
 */
#ifndef GCONV_IMAGE_TIFF_TAGS_H
#define GCONV_IMAGE_TIFF_TAGS_H

#include "image/directory.h"
#include "image/tiff.h"

/* Reads the tags of the page whose directory is at this position into the header's tags, and names those that are left out.
 * `pages`: how many have the same place on Earth. `described`: a description of the layout is right. */
gconv_status gconv_tiff_read_tags(gconv_reader *reader, const gconv_source *source, uint64_t directory, int32_t pages,
                                  bool described);

/* A checksum of a page's place on Earth; 1 if it has none. */
uint32_t gconv_tiff_place_sum(const gconv_source *source, uint64_t directory);

/* Whether the description tells a program how the file is laid out: then it is one of these tags, and no comment. */
bool gconv_tiff_is_layout(const char *description);

/* Makes the tags known to libtiff, for a file that is being written. */
void gconv_tiff_know_tags(gconv_tiff_file *file);

/* Sets those of the header's tags that are true of it, for a page being written; what is left out is said with the first.
 * *description becomes true if that was set. */
gconv_status gconv_tiff_write_tags(gconv_tiff_file *file, const gconv_image *header, bool first, bool *description);

#endif
