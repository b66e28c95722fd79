/* SPDX-License-Identifier: MIT */
#include "data/mask.h"
#include "base/arguments.h"
#include "base/gunzip.h"
#include "base/memory.h"
#include "base/npy_header.h"
#include "base/status.h"
#include "gconv_classify.h"
#include "image/layout.h"

#include <math.h>
#include <string.h>

/* Refuses JPEG and lossy WebP. */
static gconv_status check_format(const char *path) {
  const gconv_format_info *format;
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  GCONV_TRY(gconv_image_read_header(path, &header, &format));
  if (!format->quality || header.lossless)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_FILE, "%s: %s changes the numbers of a mask: save it as PNG or TIFF, from its origin", path,
                    format->name);
}

/* True if the file is an array of bools, which gconv_image_read() reads as black and white. */
static bool is_of_bools(const char *path) {
  gconv_source source;
  gconv_npy_header header = {0};
  bool is = gconv_source_open_member(path, &source) == GCONV_OK && gconv_source_unzip(&source) == GCONV_OK &&
            gconv_npy_header_read(&source, &header) == GCONV_OK && header.kind == 'b';
  gconv_source_close(&source);
  return is;
}

/* If the mask is an array of bools, changes white (true) to 1. */
static gconv_status count_bools(const char *path, gconv_image *mask) {
  if (mask->type != GCONV_U8 || !is_of_bools(path))
    return GCONV_OK;
  for (size_t y = 0; y < (size_t)mask->height; y++)
    for (size_t i = 0; i < (size_t)mask->width * (size_t)mask->channels; i++)
      ((uint8_t *)mask->data)[y * mask->row_bytes + i] /= UINT8_MAX;
  return GCONV_OK;
}

/* Converts floats to u16: arrays of wide integers are read as floats. GCONV_BAD_FILE unless all are whole numbers of 0 ..
 * 65535. */
static gconv_status count_floats(const char *path, gconv_image *mask) {
  GCONV_ENDED_BY(gconv_image_free)
  gconv_image made = {.type = GCONV_U16, .frames = 1, .height = mask->height, .width = mask->width, .channels = 1};
  GCONV_TRY(gconv_image_allocate(&made));
  for (int32_t y = 0; y < made.height; y++) {
    const float *from = gconv_row_at(mask, 0, y);
    uint16_t *to = gconv_row_at(&made, 0, y);
    for (size_t x = 0; x < (size_t)made.width; x++) {
      const float number = from[x * (size_t)(mask->planar ? 1 : mask->channels)];
      if (!(number >= 0 && number <= UINT16_MAX && number == floorf(number)))
        return gconv_fail(GCONV_BAD_FILE,
                          "%s: has %g in column %zu of row %d: the numbers of a mask are whole, from 0, which is "
                          "unlabelled, to 65535",
                          path, (double)number, x, (int)y);
      to[x] = (uint16_t)number;
    }
  }
  const gconv_image old = *mask;
  *mask = made;
  made = old;
  return GCONV_OK;
}

/* Fails unless an image has one number a pixel, perhaps with alpha. */
static gconv_status check_mask(const char *path, const gconv_image *mask) {
  const char *wrong = mask->frames != 1 ? "holds several images, and a mask is one"
                      : mask->channels - mask->alpha != 1
                          ? "has colours: a mask has one number a pixel, so save it as grey, or with a palette"
                          : NULL;
  return wrong ? gconv_fail(GCONV_BAD_FILE, "%s: %s", path, wrong) : GCONV_OK;
}

gconv_status gconv_mask_read(const char *path, const gconv_read_options *options, gconv_image *mask) {
  GCONV_NEED(path, mask);
  GCONV_TRY(check_format(path));
  GCONV_TRY(gconv_image_read(path, options, mask));
  gconv_status status = check_mask(path, mask);
  GCONV_THEN(status, mask->type == GCONV_F32 ? count_floats(path, mask) : count_bools(path, mask));
  if (status != GCONV_OK)
    gconv_image_free(mask);
  return status;
}

gconv_status gconv_mask_take(const gconv_image *given, const char *name, gconv_image *mask) {
  GCONV_TRY(check_mask(name, given));
  *mask = (gconv_image){.type = given->type,
                        .frames = 1,
                        .height = given->height,
                        .width = given->width,
                        .channels = given->planar ? 1 : given->channels, /* of planes, only the numbers are needed */
                        .alpha = given->alpha && !given->planar};
  GCONV_TRY(gconv_image_allocate(mask));
  for (int32_t y = 0; y < mask->height; y++)
    memcpy(gconv_row_at(mask, 0, y), gconv_row_at(given, 0, y), mask->row_bytes);
  return mask->type == GCONV_F32 ? count_floats(name, mask) : GCONV_OK;
}
