/* SPDX-License-Identifier: MIT */
/* Makes a whole image grey. */
#include "base/status.h"
#include "image/colour.h"

gconv_status gconv_image_to_gray(gconv_image *image) {
  int32_t colours = image->channels - (image->alpha ? 1 : 0);
  if (colours == 1)
    return GCONV_OK;
  if (image->planar || colours != 3)
    return gconv_fail(GCONV_BAD_ARGUMENT, "gray needs pixels of red, green and blue; this image has %s%d channels",
                      image->planar ? "planes of " : "", image->channels);
  gconv_image gray = *image;
  gray.channels -= 2;
  gray.data = gray.icc = NULL; /* the profile describes colours */
  gray.icc_bytes = 0;
  if (image->data)
    GCONV_TRY(gconv_image_allocate(&gray));
  for (int64_t y = 0; image->data && y < (int64_t)image->frames * image->height; y++) {
    size_t frame = (size_t)(y / image->height), row = (size_t)(y % image->height);
    gconv_colour_grey_row(image->type, image->channels, image->alpha,
                          (const uint8_t *)image->data + frame * image->plane_bytes + row * image->row_bytes,
                          (uint8_t *)gray.data + frame * gray.plane_bytes + row * gray.row_bytes, (size_t)image->width);
  }
  gconv_image_free(image);
  *image = gray;
  return GCONV_OK;
}
