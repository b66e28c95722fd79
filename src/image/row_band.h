/* SPDX-License-Identifier: MIT */
/* Bands of rows of two images that are read side by side. An image is in memory, or is read by rows; then only the rows of
 * the current band are in memory. */
#pragma once

#include "base/threads.h"
#include "image/rows.h"

/* One of the images. Zero-initialise before first use; gconv_row_band_close() frees it in any case. */
typedef struct gconv_row_band {
  const char *name;         /* for messages: the path, or what the caller calls the image */
  gconv_image header;       /* without pixels and metadata */
  size_t row_bytes;         /* from row to row, in memory */
  size_t plane;             /* the current one */
  const gconv_image *image; /* the image, if it is in memory as a whole; NULL: it is read by rows */
  int32_t first, next;      /* if it is read by rows: rows first .. next - 1 of the plane are in `window` */

  gconv_image own;          /* owned: an image that was read as a whole */
  gconv_row_reader *reader; /* owned */
  uint8_t *window;          /* owned */
  int32_t wanted, end;      /* the rows of the band */
  gconv_status status;      /* status of reading the rows */
  char *why;                /* owned */
} gconv_row_band;

/* Checks an image before it is opened: the argument `name` of a public function. */
gconv_status gconv_row_band_check(const gconv_compared *given, const char *function, const char *name);
/* Opens an image. `name`: its name in messages if it has no path. `whole`: reads all of it into memory. */
gconv_status gconv_row_band_open(const gconv_compared *given, const char *name, uint64_t max_pixels, bool whole,
                                 gconv_row_band *band);
/* Describes the shape for messages: "70 x 60, 3 channels (RGB)". */
void gconv_row_band_describe(const gconv_row_band *band, char text[128]);
/* Makes room for bands of `rows` rows. */
gconv_status gconv_row_band_reserve(gconv_row_band *band, int32_t rows);
/* Sets the rows of the next band: first .. end - 1 of the plane. It may overlap the band before, but not begin above it. */
void gconv_row_band_want(gconv_row_band *band, int32_t first, int32_t end);
/* Reads the next bands of both images. */
gconv_status gconv_row_band_read(gconv_row_band bands[2], gconv_threads *threads);
/* Reads the next band of one image, in the caller's thread. */
gconv_status gconv_row_band_fill(gconv_row_band *band);
/* A row of the band. */
const uint8_t *gconv_row_band_row(const gconv_row_band *band, int32_t y);
/* Skips the rows that are left in this plane, and goes to the next. */
gconv_status gconv_row_band_next_plane(gconv_row_band *band);
void gconv_row_band_close(gconv_row_band *band);
