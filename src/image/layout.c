/* SPDX-License-Identifier: MIT */
#include "image/layout.h"
#include "base/status.h"

#include <string.h>

/* ---- Headers and parts --------------------------------------------------------------------------------------------- */

gconv_image gconv_header_of(const gconv_image *image) {
  gconv_image header = gconv_header_with(image, image->type, image->channels, image->planar);
  header.alpha = image->alpha;
  header.has_nodata = image->has_nodata;
  header.nodata = image->nodata;
  return header;
}

gconv_image gconv_header_with(const gconv_image *image, gconv_type type, int32_t channels, bool planar) {
  return (gconv_image){.type = type,
                       .frames = image->frames,
                       .height = image->height,
                       .width = image->width,
                       .channels = channels,
                       .planar = planar};
}

double gconv_pixel_bytes(const gconv_image *image) {
  return (double)image->frames * image->height * image->width * image->channels * (double)gconv_type_bytes(image->type);
}

static size_t planes_of(const gconv_image *image) {
  return image->planar ? (size_t)image->channels : 1;
}

size_t gconv_image_bytes(const gconv_image *image) {
  return (size_t)image->frames * planes_of(image) * image->plane_bytes;
}

gconv_image gconv_frames_of(const gconv_image *image, int32_t first, int32_t count) {
  gconv_image part = *image;
  part.frames = count;
  if (image->data) /* not of a header alone */
    part.data = (uint8_t *)image->data + (size_t)first * planes_of(image) * image->plane_bytes;
  return part;
}

void gconv_image_reshape(gconv_image *image, const gconv_image *header) {
  gconv_image other = gconv_header_of(header);
  other.row_bytes = gconv_image_row_bytes(&other);
  other.plane_bytes = other.row_bytes * (size_t)other.height;
  if (!image->data || gconv_image_bytes(image) != gconv_image_bytes(&other)) {
    gconv_image_free(image);
    return;
  }
  other.data = image->data;
  image->data = NULL;
  gconv_image_free(image); /* the metadata */
  *image = other;
}

/* ---- Arrays of four dimensions ------------------------------------------------------------------------------------- */

static void copy_sample(size_t bytes, uint8_t *to, const uint8_t *from) {
  if (bytes == 1)
    *to = *from;
  else if (bytes == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, bytes);
}

/* Makes *transposed like the header: in each frame, `a` rows of `b` samples, `stride` bytes apart, become b rows
 * of a samples. */
static gconv_status transpose(const gconv_image *image, const gconv_image *header, size_t a, size_t b, size_t stride,
                              gconv_image *transposed) {
  size_t bytes = gconv_type_bytes(image->type);
  *transposed = gconv_header_of(header);
  GCONV_TRY(gconv_image_allocate(transposed));
  for (size_t n = 0; n < (size_t)image->frames; n++) {
    const uint8_t *from = (const uint8_t *)image->data + n * a * stride;
    uint8_t *to = (uint8_t *)transposed->data + n * a * b * bytes;
    for (size_t j = 0; j < b; j++)
      for (size_t i = 0; i < a; i++)
        copy_sample(bytes, to + (j * a + i) * bytes, from + i * stride + j * bytes);
  }
  return GCONV_OK;
}

void gconv_header_to_nchw(gconv_image *header) {
  gconv_image read = *header;
  if (!read.planar)
    return;
  header->height = read.channels; /* an array N x H x W x C was read as H channels of W x C pixels */
  header->width = read.height;
  header->channels = read.width;
}

void gconv_header_to_nhwc(gconv_image *header) {
  gconv_image named = *header;
  if (!named.planar)
    return;
  header->channels = named.height;
  header->height = named.width;
  header->width = named.channels;
}

gconv_status gconv_to_nchw(gconv_image *image) {
  gconv_image to = *image, transposed;
  gconv_header_to_nchw(&to);
  size_t channels = (size_t)to.channels;
  GCONV_TRY(transpose(image, &to, (size_t)to.height * (size_t)to.width, channels, channels * gconv_type_bytes(to.type),
                      &transposed));
  gconv_image_free(image);
  *image = transposed;
  return GCONV_OK;
}

gconv_status gconv_to_nhwc(const gconv_image *image, gconv_image *transposed) {
  gconv_image to = *image;
  gconv_header_to_nhwc(&to);
  return transpose(image, &to, (size_t)image->channels, (size_t)image->height * (size_t)image->width, image->plane_bytes,
                   transposed);
}
