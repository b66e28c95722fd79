/* SPDX-License-Identifier: MIT */
/*
 * EXIF as files hold it: a block laid out like a TIFF file, from "II" or "MM" on. It has directories of entries: the main
 * one, those for the camera, for GPS and for interoperability, and one for a thumbnail.
 *
 * Nobody vouches for the block. What is kept of it is read with checks, and copied to where it was: the notes of cameras
 * hold positions in the block, so nothing may move.
 */
#ifndef GCONV_IMAGE_EXIF_H
#define GCONV_IMAGE_EXIF_H

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

/* The room for a copy of a block of `size` bytes. */
size_t gconv_exif_room(size_t size);

/* Reads the block. *copy, which has room, becomes the block of the upright image: its orientation is 1, and it has nothing
 * but what its directories name. So there is no thumbnail in it, which would show the picture unfiltered. *copy_size is its
 * size. Returns NULL, or what is wrong with the block: "it does not begin as EXIF does". */
const char *gconv_exif_read(const uint8_t *block, size_t size, uint8_t *copy, size_t *copy_size, gconv_exif *exif);

/* Writes the size of the image into the entries for it, where a block that gconv_exif_read() made has such. */
void gconv_exif_set_size(uint8_t *block, size_t size, int32_t width, int32_t height);

#endif
