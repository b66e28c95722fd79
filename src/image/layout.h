/* SPDX-License-Identifier: MIT */
/* Images in memory: their headers, parts of them, and arrays of four dimensions, N x C x H x W and N x H x W x C. */
#ifndef GCONV_IMAGE_LAYOUT_H
#define GCONV_IMAGE_LAYOUT_H

#include "base/both.h"
#include "gconv.h"

GCONV_C_BEGIN

/* The header of an image, without pixels and metadata. */
gconv_image gconv_header_of(const gconv_image *image);
/* Bytes of the pixels that a header tells of. */
double gconv_pixel_bytes(const gconv_image *image);
/* Bytes of the samples of one row, of one plane if the image is planar. Only the header counts. */
size_t gconv_image_row_bytes(const gconv_image *image);
/* Bytes of the pixels that an image has in memory. */
size_t gconv_image_bytes(const gconv_image *image);
/* `count` frames of an image, from `first` on: its pixels, not a copy. */
gconv_image gconv_frames_of(const gconv_image *image, int32_t first, int32_t count);
/* Makes *image, which may have pixels, an image like the header. Its memory is kept if it has the right size, and freed
 * otherwise. */
void gconv_image_reshape(gconv_image *image, const gconv_image *header);
/* Transposes an image that was read from N x H x W x C as if it were N x C x H x W, to what the names say. */
gconv_status gconv_to_nchw(gconv_image *image);
/* The other way round, in memory of its own: *transposed, for gconv_image_free(). */
gconv_status gconv_to_nhwc(const gconv_image *image, gconv_image *transposed);
/* Gives the header of a planar image the sizes that gconv_to_nchw() would; and back. */
void gconv_header_to_nchw(gconv_image *header);
void gconv_header_to_nhwc(gconv_image *header);

GCONV_C_END
#endif
