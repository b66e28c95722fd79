/* SPDX-License-Identifier: MIT */
#include "layer/bleed.h"
#include "base/memory.h"
#include "operation/verify.h"

#include <math.h>
#include <string.h>

/* A frame of an image. Its transparent pixels get colours in rings around the opaque ones. turn[] has a number for each
 * pixel: the ring in which the pixel got its colour, from 1 on, or 0 while it has none. */
typedef struct bleeding {
  gconv_image *image;
  uint8_t *turn;
  int32_t frame;
} bleeding;

static void *sample_of(const bleeding *b, int32_t y, int32_t x, int32_t channel) {
  const gconv_image *image = b->image;
  uint8_t *row = (uint8_t *)image->data + (size_t)b->frame * image->plane_bytes + (size_t)y * image->row_bytes;
  return row + ((size_t)x * (size_t)image->channels + (size_t)channel) * gconv_type_bytes(image->type);
}

static void set_sample(const bleeding *b, int32_t y, int32_t x, int32_t channel, double value) {
  void *to = sample_of(b, y, x, channel);
  if (b->image->type == GCONV_U8)
    *(uint8_t *)to = (uint8_t)lrint(value);
  else if (b->image->type == GCONV_U16)
    *(uint16_t *)to = (uint16_t)lrint(value);
  else
    *(float *)to = (float)value;
}

/* Gives a pixel the mean colour of those of its eight neighbours that got a colour in an earlier ring. */
static void fill_pixel(const bleeding *b, int32_t y, int32_t x, uint8_t ring) {
  const gconv_image *image = b->image;
  double sums[4] = {0};
  int count = 0;
  for (int32_t v = y > 0 ? y - 1 : 0; v <= y + 1 && v < image->height; v++)
    for (int32_t u = x > 0 ? x - 1 : 0; u <= x + 1 && u < image->width; u++) {
      const uint8_t turn = b->turn[(size_t)v * (size_t)image->width + (size_t)u];
      if (turn == 0 || turn >= ring)
        continue;
      for (int32_t c = 0; c + 1 < image->channels; c++)
        sums[c] += gconv_sample_at(image, b->frame, c, v, u);
      count++;
    }
  if (count == 0)
    return;
  for (int32_t c = 0; c + 1 < image->channels; c++)
    set_sample(b, y, x, c, sums[c] / count);
  b->turn[(size_t)y * (size_t)image->width + (size_t)x] = ring;
}

static void bleed_frame(const bleeding *b) {
  const gconv_image *image = b->image;
  const size_t width = (size_t)image->width, pixels = width * (size_t)image->height;
  for (size_t i = 0; i < pixels; i++)
    b->turn[i] =
        gconv_sample_at(image, b->frame, image->channels - 1, (int64_t)(i / width), (int64_t)(i % width)) > 0 ? 1 : 0;
  for (uint8_t ring = 2; ring < 2 + GCONV_BLEED && memchr(b->turn, 0, pixels); ring++)
    for (int32_t y = 0; y < image->height; y++) {
      const uint8_t *row = b->turn + (size_t)y * width, *at = row;
      for (; at < row + width && (at = memchr(at, 0, width - (size_t)(at - row))); at++)
        fill_pixel(b, y, (int32_t)(at - row), ring);
    }
}

gconv_status gconv_bleed(const gconv_image *in, gconv_image *out) {
  GCONV_FREED void *turn = NULL;
  *out = gconv_header_of(in);
  out->alpha = in->alpha;
  GCONV_TRY(gconv_image_allocate(out));
  const size_t bytes = (size_t)in->width * (size_t)in->channels * gconv_type_bytes(in->type);
  const gconv_status status =
      gconv_allocate((size_t)in->width * (size_t)in->height, "the colours of transparent pixels", &turn);
  if (status != GCONV_OK) {
    gconv_image_free(out);
    return status;
  }
  for (int32_t n = 0; n < in->frames; n++) {
    for (int32_t y = 0; y < in->height; y++)
      memcpy((uint8_t *)out->data + (size_t)n * out->plane_bytes + (size_t)y * out->row_bytes,
             (const uint8_t *)in->data + (size_t)n * in->plane_bytes + (size_t)y * in->row_bytes, bytes);
    bleed_frame(&(bleeding){out, turn, n});
  }
  return GCONV_OK;
}
