/* SPDX-License-Identifier: MIT */
/* Arrays of four dimensions: N x C x H x W, and N x H x W x C. */
#ifndef GCONV_BATCH_LAYOUT_H
#define GCONV_BATCH_LAYOUT_H

#include "gconv.h"

/* Turns N x H x W x C as it was read, N x C x H x W by its names, to what its names say. */
gconv_status gconv_to_nchw(gconv_image *image);
/* The other way round, in memory of its own: *turned, for gconv_image_free(). */
gconv_status gconv_to_nhwc(const gconv_image *image, gconv_image *turned);

/* Gives a header the sizes that gconv_to_nchw() would, if it is one of planes; and back. */
void gconv_header_to_nchw(gconv_image *header);
void gconv_header_to_nhwc(gconv_image *header);

#endif
