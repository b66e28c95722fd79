/* SPDX-License-Identifier: MIT */
/*
 * Reads EXIF as files hold it: a block laid out like a TIFF file, from "II" or "MM" on. It has directories of entries: the
 * main directory, and others for the camera, GPS, interoperability and a thumbnail.
 *
 * The block may be damaged, so it is read with checks. In a copy of the block, every value keeps its position: cameras'
 * own notes (MakerNote) hold such positions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the block says of the pixels. */
typedef struct gconv_exif {
  int orientation;           /* 1 to 8; 0: it does not say */
  double pixels_per_metre_x; /* as the image is stored; 0: it does not say */
  double pixels_per_metre_y;
  size_t damaged; /* entries that are left out, because their type is unknown or their value lies outside the block */
} gconv_exif;

/* Returns how many bytes the copy of a block of `size` bytes needs at most. */
size_t gconv_exif_room(size_t size);

/* Reads a block, and copies it as the block of the upright image, whose orientation is 1. `copy` has gconv_exif_room(size)
 * bytes; *copy_size is how many the copy takes. The copy has only what the block's directories name, except the thumbnail,
 * which would show the picture unfiltered. Returns NULL, or what is wrong: "it does not begin as EXIF does". */
const char *gconv_exif_read(const uint8_t *block, size_t size, uint8_t *copy, size_t *copy_size, gconv_exif *exif);

/* Writes the size of the image into the entries for width and height that the block, a copy by gconv_exif_read(), has. */
void gconv_exif_set_size(uint8_t *block, size_t size, int32_t width, int32_t height);
