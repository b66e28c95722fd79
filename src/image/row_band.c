/* SPDX-License-Identifier: MIT */
#include "image/row_band.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "image/layout.h"
#include "image/metadata.h"

#include <string.h>

gconv_status gconv_row_band_check(const gconv_compared *given, const char *function, const char *name) {
  if (!given || (!given->path && !given->image))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s(): %s is NULL, or names no image", function, name);
  if (!given->image)
    return GCONV_OK;
  GCONV_TRY(gconv_check_source(given->image, name));
  return gconv_check_pixels(given->image, name);
}

gconv_status gconv_row_band_open(const gconv_compared *given, const char *name, uint64_t max_pixels, bool whole,
                                 gconv_row_band *band) {
  const gconv_read_options read = {.max_pixels = max_pixels};
  band->name = given->path ? given->path : name;
  band->image = given->image;
  if (!band->image) {
    GCONV_TRY(gconv_row_reader_open(given->path, &read, &band->reader));
    band->header = *gconv_row_reader_header(band->reader);
    if (whole || !gconv_row_reader_is_in_order(band->reader)) {
      GCONV_TRY(gconv_row_reader_image(band->reader, &band->own));
      gconv_row_reader_close(band->reader);
      band->reader = NULL;
      band->image = &band->own;
    }
  }
  if (band->image && !band->image->data)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s has no pixels", band->name);
  if (band->image)
    band->header = *band->image;
  band->header.data = NULL;
  gconv_metadata_disown(&band->header);
  band->row_bytes = band->image ? band->image->row_bytes : gconv_image_row_bytes(&band->header);
  return GCONV_OK;
}

void gconv_row_band_describe(const gconv_row_band *band, char text[128]) {
  const gconv_image *image = &band->header;
  static const char *const colours[] = {"", "grey", "grey and alpha", "RGB", "RGB and alpha"};
  int used = snprintf(text, 128, "%d x %d", (int)image->width, (int)image->height);
  if (image->frames > 1)
    used += snprintf(text + used, 128 - (size_t)used, ", %d frames", (int)image->frames);
  used += snprintf(text + used, 128 - (size_t)used, ", %d channel%s", (int)image->channels, image->channels == 1 ? "" : "s");
  if (image->channels <= 4 && image->alpha == (image->channels % 2 == 0))
    snprintf(text + used, 128 - (size_t)used, " (%s)", colours[image->channels]);
  else if (image->planar)
    snprintf(text + used, 128 - (size_t)used, " (planes)");
}

gconv_status gconv_row_band_reserve(gconv_row_band *band, int32_t rows) {
  const size_t window[] = {(size_t)rows, band->row_bytes};
  return band->image ? GCONV_OK
                     : gconv_allocate(gconv_checked_product(2, window), "rows of an image", (void **)&band->window);
}

void gconv_row_band_want(gconv_row_band *band, int32_t first, int32_t end) {
  band->wanted = first;
  band->end = end;
}

/* Reads the rows of the band, except those that it shares with the band before: these move to the begin of the window. */
static gconv_status read_rows(gconv_row_band *b) {
  const size_t bytes = b->row_bytes;
  const int32_t keep = b->wanted > b->first ? b->wanted : b->first, room = b->end - b->wanted;
  while (b->next < b->end) {
    if (keep > b->first && b->next > keep)
      memmove(b->window, b->window + (size_t)(keep - b->first) * bytes, (size_t)(b->next - keep) * bytes);
    b->first = keep < b->next ? keep : b->next;
    int32_t count = b->end - b->next;
    count = count < room - (b->next - b->first) ? count : room - (b->next - b->first);
    GCONV_TRY(gconv_row_reader_read(b->reader, b->window + (size_t)(b->next - b->first) * bytes, bytes, count));
    b->next += count;
  }
  return GCONV_OK;
}

static void take_band(void *context, size_t turn, int seat) {
  gconv_row_band *band = (gconv_row_band *)context + turn;
  band->status = band->image ? GCONV_OK : read_rows(band);
  if (band->status != GCONV_OK)
    band->why = strdup(gconv_last_error());
}

gconv_status gconv_row_band_read(gconv_row_band bands[2], gconv_threads *threads) {
  gconv_threads_run(threads, 2, take_band, bands);
  for (size_t i = 0; i < 2; i++)
    if (bands[i].status != GCONV_OK)
      return gconv_set_error(bands[i].status, bands[i].why ? bands[i].why : "out of memory");
  return GCONV_OK;
}

gconv_status gconv_row_band_fill(gconv_row_band *band) {
  return band->image ? GCONV_OK : read_rows(band);
}

const uint8_t *gconv_row_band_row(const gconv_row_band *band, int32_t y) {
  if (band->image)
    return (const uint8_t *)band->image->data + band->plane * band->image->plane_bytes + (size_t)y * band->row_bytes;
  return band->window + (size_t)(y - band->first) * band->row_bytes;
}

gconv_status gconv_row_band_next_plane(gconv_row_band *band) {
  gconv_row_band_want(band, band->header.height - 1, band->header.height);
  if (!band->image)
    GCONV_TRY(read_rows(band));
  band->first = band->next = 0;
  band->plane++;
  return GCONV_OK;
}

void gconv_row_band_close(gconv_row_band *band) {
  gconv_row_reader_close(band->reader);
  gconv_image_free(&band->own);
  gconv_release(band->window);
  free(band->why);
}
