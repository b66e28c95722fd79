/* SPDX-License-Identifier: MIT */
/* The eight orientations of EXIF: how a stored image must be rotated and mirrored to stand upright. */
#pragma once

#include "gconv.h"

/* Gives a header the size and resolution of the upright image. */
void gconv_orient_header(gconv_image *image, int orientation);

/* Rotates the frames of an interleaved image upright, as `orientation` (1 to 8) demands. After a failure, GCONV_NO_MEMORY,
 * it is unchanged. */
gconv_status gconv_orient(gconv_image *image, int orientation);
