/* SPDX-License-Identifier: MIT */
/* Images in memory, and properties of their pixels that formats need. */
#include "base/arguments.h"
#include "image/format.h"

#include <stdlib.h>
#include <string.h>

/* ---- In memory ---- */

gconv_status gconv_image_allocate(gconv_image *image) {
  GCONV_NEED(image);
  GCONV_TRY(gconv_check_header(image, "an image"));
  size_t planes = (size_t)image->frames, samples = (size_t)image->width;
  *(image->planar ? &planes : &samples) *= (size_t)image->channels; /* two factors of 31 bits: no overflow */
  size_t row_bytes = samples * gconv_type_bytes(image->type), plane_bytes, bytes;
  if (!gconv_multiply(row_bytes, (size_t)image->height, &plane_bytes) || !gconv_multiply(plane_bytes, planes, &bytes))
    return gconv_fail(GCONV_TOO_LARGE, "an image of %d x %d x %d x %d samples is larger than any memory", image->frames,
                      image->height, image->width, image->channels);
  GCONV_TRY(gconv_allocate(bytes, "an image", &image->data));
  image->row_bytes = row_bytes;
  image->plane_bytes = plane_bytes;
  return GCONV_OK;
}

bool gconv_image_same_shape(const gconv_image *a, const gconv_image *b) {
  return a && b && a->type == b->type && a->frames == b->frames && a->height == b->height && a->width == b->width &&
         a->channels == b->channels && a->planar == b->planar && a->alpha == b->alpha;
}

/* ---- Details that formats share ---- */

gconv_status gconv_format_state(size_t bytes, const char *what, void **state) {
  *state = calloc(1, bytes);
  return *state ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %s", what);
}

double gconv_image_frame_bytes(const gconv_image *image) {
  return (double)image->height * image->width * image->channels * (double)gconv_type_bytes(image->type);
}

int64_t gconv_image_row_count(const gconv_image *image) {
  return (int64_t)image->frames * (image->planar ? image->channels : 1) * image->height;
}

size_t gconv_image_row_bytes(const gconv_image *image) {
  return (size_t)image->width * (image->planar ? 1 : (size_t)image->channels) * gconv_type_bytes(image->type);
}

/* Checks what ICC.1, 7.2, says of the header: the profile's size, colour space, mark and number of tags. */
const char *gconv_icc_fault(const gconv_image *image, bool whole) {
  enum { HEADER_BYTES = 128, SPACE = 16, MARK = 36, TAG_BYTES = 12, MOST_BYTES = 1 << 30 };
  const uint8_t *profile = image->icc;
  size_t size = image->icc_bytes;
  if (size < HEADER_BYTES || size > MOST_BYTES)
    return "it is damaged";
  if (memcmp(profile + SPACE, image->channels >= 3 ? "RGB " : "GRAY", 4) != 0)
    return image->channels >= 3 ? "it is not one of RGB colours, as the picture has them"
                                : "it is not one of grey, as the picture is";
  bool is_whole = size >= HEADER_BYTES + 4 && gconv_bytes_number(profile, 4, true) == size &&
                  memcmp(profile + MARK, "acsp", 4) == 0 &&
                  gconv_bytes_number(profile + HEADER_BYTES, 4, true) <= (size - HEADER_BYTES - 4) / TAG_BYTES;
  return whole && !is_whole ? "it is damaged" : NULL;
}

void gconv_swap_bytes(void *items, size_t count, size_t item_bytes) {
  uint8_t *bytes = items;
  for (size_t i = 0; item_bytes == 2 && i < 2 * count; i += 2) {
    uint8_t first = bytes[i];
    bytes[i] = bytes[i + 1];
    bytes[i + 1] = first;
  }
  for (size_t i = 0; item_bytes > 2 && i < count; i++, bytes += item_bytes)
    for (size_t low = 0, high = item_bytes - 1; low < high; low++, high--) {
      uint8_t first = bytes[low];
      bytes[low] = bytes[high];
      bytes[high] = first;
    }
}
