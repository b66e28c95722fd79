/* SPDX-License-Identifier: MIT */
/* Images in memory: their headers, parts of them, and arrays of four dimensions, N x C x H x W and N x H x W x C. */
#pragma once

#include "base/both.h"
#include "gconv.h"

#include <math.h>

/* Return the number of planes of all frames, the number of samples of a row of a plane, and row y of a plane. */
static inline size_t gconv_planes_of(const gconv_image *image) {
  return (size_t)image->frames * (image->planar ? (size_t)image->channels : 1);
}
static inline size_t gconv_samples_of(const gconv_image *image) {
  return (size_t)image->width * (image->planar ? 1 : (size_t)image->channels);
}
static inline void *gconv_row_at(const gconv_image *image, size_t plane, int64_t y) {
  return (uint8_t *)image->data + plane * image->plane_bytes + (size_t)y * image->row_bytes;
}

/* Return sample i of a row as it is stored, a level or a float; and store it, rounded if it is a level. */
GCONV_BOTH double gconv_stored_at(gconv_type type, const void *row, size_t i) {
  return type == GCONV_U8    ? ((const uint8_t *)row)[i]
         : type == GCONV_U16 ? ((const uint16_t *)row)[i]
                             : (double)((const float *)row)[i];
}
GCONV_BOTH void gconv_store_at(gconv_type type, void *row, size_t i, double value) {
  if (type == GCONV_U8)
    ((uint8_t *)row)[i] = (uint8_t)rint(value);
  else if (type == GCONV_U16)
    ((uint16_t *)row)[i] = (uint16_t)rint(value);
  else
    ((float *)row)[i] = (float)value;
}

GCONV_C_BEGIN

/* Returns the header of an image, without pixels and metadata. */
gconv_image gconv_header_of(const gconv_image *image);
/* Returns the header of an image of the same frames and size, without alpha. */
gconv_image gconv_header_with(const gconv_image *image, gconv_type type, int32_t channels, bool planar);
/* Returns how many bytes the samples of an image have. Only the header counts. */
double gconv_pixel_bytes(const gconv_image *image);
/* Returns the bytes of the samples of one row; if the image is planar, of one plane. Only the header counts. */
size_t gconv_image_row_bytes(const gconv_image *image);
/* Returns the bytes that an image takes in memory, with gaps between its planes. */
size_t gconv_image_bytes(const gconv_image *image);
/* Returns `count` frames of an image, from `first` on. It shares the pixels with the image. */
gconv_image gconv_frames_of(const gconv_image *image, int32_t first, int32_t count);
/* Makes *image, which may have pixels, an image like the header. Its memory is kept if it has the right size, else freed. */
void gconv_image_reshape(gconv_image *image, const gconv_image *header);
/* Transposes an image that was read from an array N x H x W x C, with its H as channels. The array becomes N x C x H x W. */
gconv_status gconv_to_nchw(gconv_image *image);
/* Does the inverse of gconv_to_nchw(), in new memory: *transposed, for gconv_image_free(). */
gconv_status gconv_to_nhwc(const gconv_image *image, gconv_image *transposed);
/* gconv_header_to_nchw() changes the header of a planar image as gconv_to_nchw() would; gconv_header_to_nhwc() undoes it. */
void gconv_header_to_nchw(gconv_image *header);
void gconv_header_to_nhwc(gconv_image *header);

GCONV_C_END
