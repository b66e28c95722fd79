/* SPDX-License-Identifier: MIT */
#include "batch/pieces.h"

/* Copies one planar row to every `channels`-th sample of an interleaved one. */
static void spread_row(gconv_type type, const void *from, void *to, int32_t width, int32_t channels) {
  if (type == GCONV_U8)
    for (int32_t x = 0; x < width; x++)
      ((uint8_t *)to)[(size_t)x * (size_t)channels] = ((const uint8_t *)from)[x];
  else if (type == GCONV_U16)
    for (int32_t x = 0; x < width; x++)
      ((uint16_t *)to)[(size_t)x * (size_t)channels] = ((const uint16_t *)from)[x];
  else
    for (int32_t x = 0; x < width; x++)
      ((float *)to)[(size_t)x * (size_t)channels] = ((const float *)from)[x];
}

/* Gives *piece, which has the planes of a planar frame, interleaved pixels of its own. */
static gconv_status interleave(gconv_image *piece) {
  gconv_image whole = *piece;
  whole.planar = false;
  whole.data = NULL;
  GCONV_TRY(gconv_image_allocate(&whole));
  for (int32_t c = 0; c < piece->channels; c++)
    for (int32_t y = 0; y < piece->height; y++)
      spread_row(piece->type, (const char *)piece->data + (size_t)c * piece->plane_bytes + (size_t)y * piece->row_bytes,
                 (char *)whole.data + (size_t)y * whole.row_bytes + (size_t)c * gconv_type_bytes(piece->type), piece->width,
                 piece->channels);
  *piece = whole;
  return GCONV_OK;
}

gconv_status gconv_piece_take(const gconv_image *image, int32_t frame, gconv_image *piece) {
  size_t planes = image->planar ? (size_t)image->channels : 1;
  *piece = *image;
  piece->frames = 1;
  piece->data = (char *)image->data + (size_t)frame * planes * image->plane_bytes;
  if (image->planar && image->channels == 1)
    piece->planar = false; /* the same bytes either way */
  return piece->planar && image->channels <= 4 ? interleave(piece) : GCONV_OK;
}

void gconv_piece_free(const gconv_image *image, gconv_image *piece) {
  bool own_pixels = image->planar && !piece->planar && image->channels > 1;
  if (own_pixels) {
    piece->icc = NULL; /* the image's */
    gconv_image_free(piece);
  }
  *piece = (gconv_image){0};
}
