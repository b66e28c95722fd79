/* SPDX-License-Identifier: MIT */
/* N x C x H x W, and N x H x W x C. */
#include "batch/banks.h"

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

/* The image was read as one with H channels of W x C pixels. */
gconv_status gconv_to_nchw(gconv_image *image) {
  int32_t height = image->channels, width = image->height, channels = image->width;
  return transpose(image, (size_t)height * (size_t)width, (size_t)channels, channels, height, width);
}

gconv_status gconv_to_nhwc(gconv_image *image) {
  int32_t height = image->height, width = image->width, channels = image->channels;
  return transpose(image, (size_t)channels, (size_t)height * (size_t)width, height, width, channels);
}
