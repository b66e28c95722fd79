/* SPDX-License-Identifier: MIT */
/* N x C x H x W, and N x H x W x C. */
#include "batch/layout.h"

#include <string.h>

static void copy_sample(size_t bytes, uint8_t *to, const uint8_t *from) {
  if (bytes == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, bytes);
}

/* Turns each frame, an array of a x b samples, to b x a; the image gets the new sizes, and other memory. */
static gconv_status transpose(gconv_image *image, size_t a, size_t b, int32_t channels, int32_t height, int32_t width) {
  gconv_image turned = *image;
  turned.channels = channels;
  turned.height = height;
  turned.width = width;
  turned.data = NULL;
  gconv_status status = gconv_image_allocate(&turned);
  if (status != GCONV_OK)
    return status;
  size_t bytes = gconv_type_bytes(image->type);
  for (int32_t n = 0; n < image->frames; n++) {
    const uint8_t *from = (const uint8_t *)image->data + (size_t)n * a * b * bytes;
    uint8_t *to = (uint8_t *)turned.data + (size_t)n * a * b * bytes;
    for (size_t j = 0; j < b; j++)
      for (size_t i = 0; i < a; i++)
        copy_sample(bytes, to + (j * a + i) * bytes, from + (i * b + j) * bytes);
  }
  turned.icc = image->icc;
  image->icc = NULL;
  gconv_image_free(image);
  *image = turned;
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
  gconv_image to = *image;
  gconv_header_to_nchw(&to);
  return transpose(image, (size_t)to.height * (size_t)to.width, (size_t)to.channels, to.channels, to.height, to.width);
}

gconv_status gconv_to_nhwc(gconv_image *image) {
  gconv_image to = *image;
  gconv_header_to_nhwc(&to);
  return transpose(image, (size_t)image->channels, (size_t)image->height * (size_t)image->width, to.channels, to.height,
                   to.width);
}
