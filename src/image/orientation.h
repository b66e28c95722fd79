/* SPDX-License-Identifier: MIT */
/* The eight orientations of EXIF: how a stored image must be rotated and mirrored to stand upright. */
#ifndef GCONV_IMAGE_ORIENTATION_H
#define GCONV_IMAGE_ORIENTATION_H

#include "gconv.h"

/* Returns the orientation (1 to 8) in the EXIF data at `bytes`, which begin with the TIFF header "II" or "MM". 1 if there is
 * none, or if the data are damaged. */
int gconv_exif_orientation(const uint8_t *bytes, size_t size);

/* Gives a header the size and resolution of the upright image. */
void gconv_orient_header(gconv_image *image, int orientation);

/* Rotates the frames of an interleaved image upright, as `orientation` (1 to 8) demands. After a failure, GCONV_NO_MEMORY,
 * it is unchanged. */
gconv_status gconv_orient(gconv_image *image, int orientation);

#endif
