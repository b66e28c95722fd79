/* SPDX-License-Identifier: MIT */
/* N x C x H x W, and N x H x W x C. */
#include "batch/layout.h"
#include "base/status.h"
#include "operation/operation.h"

#include <string.h>

static void copy_sample(size_t bytes, uint8_t *to, const uint8_t *from) {
  if (bytes == 1)
    *to = *from;
  else if (bytes == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, bytes);
}

/* Makes *turned like the header: of each frame, `a` rows of `b` samples that are `stride` bytes apart, b rows of a. */
static gconv_status transpose(const gconv_image *image, const gconv_image *header, size_t a, size_t b, size_t stride,
                              gconv_image *turned) {
  size_t bytes = gconv_type_bytes(image->type);
  *turned = gconv_header_of(header);
  GCONV_TRY(gconv_image_allocate(turned));
  for (size_t n = 0; n < (size_t)image->frames; n++) {
    const uint8_t *from = (const uint8_t *)image->data + n * a * stride;
    uint8_t *to = (uint8_t *)turned->data + n * a * b * bytes;
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
  header->height = read.channels; /* it was read as one with H channels of W x C pixels */
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
  gconv_image to = *image, turned;
  gconv_header_to_nchw(&to);
  size_t channels = (size_t)to.channels;
  GCONV_TRY(
      transpose(image, &to, (size_t)to.height * (size_t)to.width, channels, channels * gconv_type_bytes(to.type), &turned));
  gconv_image_free(image);
  *image = turned;
  return GCONV_OK;
}

gconv_status gconv_to_nhwc(const gconv_image *image, gconv_image *turned) {
  gconv_image to = *image;
  gconv_header_to_nhwc(&to);
  return transpose(image, &to, (size_t)image->channels, (size_t)image->height * (size_t)image->width, image->plane_bytes,
                   turned);
}
