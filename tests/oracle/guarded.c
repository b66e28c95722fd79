/* SPDX-License-Identifier: MIT */
#include "guarded.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, GUARD_BYTES = 256 }; /* on either side; the data stays aligned as gconv.h promises */

gconv_guarded_rows gconv_guarded_rows_of(const gconv_image *image) {
  size_t planes = (size_t)image->frames * (image->planar ? (size_t)image->channels : 1);
  size_t elements = (size_t)image->width * (image->planar ? 1 : (size_t)image->channels);
  size_t sample = image->type == GCONV_U8 ? 1 : image->type == GCONV_F32 ? 4 : 2;
  return (gconv_guarded_rows){planes * (size_t)image->height, elements * sample};
}

uint8_t *gconv_guarded_row(const gconv_image *image, size_t i) {
  size_t plane = i / (size_t)image->height, y = i % (size_t)image->height;
  return (uint8_t *)image->data + plane * image->plane_bytes + y * image->row_bytes;
}

bool gconv_guarded_make(gconv_guarded *guarded, const gconv_image *header, size_t row_gap, size_t plane_gap, uint8_t guard) {
  gconv_guarded_rows rows = gconv_guarded_rows_of(header);
  size_t sample = rows.bytes / ((size_t)header->width * (header->planar ? 1 : (size_t)header->channels));
  *guarded = (gconv_guarded){.image = *header, .guard = guard};
  guarded->image.row_bytes = rows.bytes + row_gap * sample;
  guarded->image.plane_bytes = guarded->image.row_bytes * (size_t)header->height + plane_gap * sample;
  size_t data = guarded->image.plane_bytes * (rows.count / (size_t)header->height);
  guarded->bytes = (data + 2 * GUARD_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  guarded->memory = aligned_alloc(ALIGNMENT, guarded->bytes);
  if (!guarded->memory)
    return false;
  memset(guarded->memory, guard, guarded->bytes);
  guarded->image.data = guarded->memory + GUARD_BYTES;
  guarded->image.icc = NULL;
  guarded->image.icc_bytes = 0;
  return true;
}

void gconv_guarded_free(gconv_guarded *guarded) {
  free(guarded->memory);
  *guarded = (gconv_guarded){0};
}

static bool all_are(const uint8_t *begin, const uint8_t *end, uint8_t value) {
  for (; begin < end; begin++)
    if (*begin != value)
      return false;
  return true;
}

bool gconv_guarded_intact(const gconv_guarded *guarded) {
  gconv_guarded_rows rows = gconv_guarded_rows_of(&guarded->image);
  const uint8_t *gap = guarded->memory;
  for (size_t i = 0; i < rows.count; i++) {
    const uint8_t *row = gconv_guarded_row(&guarded->image, i);
    if (!all_are(gap, row, guarded->guard))
      return false;
    gap = row + rows.bytes;
  }
  return all_are(gap, guarded->memory + guarded->bytes, guarded->guard);
}

bool gconv_guarded_equal(const gconv_image *a, const gconv_image *b) {
  if (a->type != b->type || a->frames != b->frames || a->height != b->height || a->width != b->width ||
      a->channels != b->channels || a->planar != b->planar || a->alpha != b->alpha)
    return false;
  gconv_guarded_rows rows = gconv_guarded_rows_of(a);
  for (size_t i = 0; i < rows.count; i++)
    if (memcmp(gconv_guarded_row(a, i), gconv_guarded_row(b, i), rows.bytes) != 0)
      return false;
  return true;
}
