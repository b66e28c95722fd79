/* SPDX-License-Identifier: MIT */
#include "image/tiff.h"

#include <string.h>

static bool sniff(const uint8_t *bytes, size_t size) {
  static const char *const starts[] = {"II*\0", "MM\0*", "II+\0", "MM\0+"};
  for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
    if (size >= 4 && memcmp(bytes, starts[i], 4) == 0)
      return true;
  return false;
}

const gconv_format gconv_format_tiff = {
    .info = {.name = "tiff",
             .extensions = "tif tiff",
             .help = "TIFF and BigTIFF: 8 and 16 bits or 32-bit floats, pages are frames",
             .reads = true,
             .writes = true,
             .holds = {true, true, true},
             .multiframe = true,
             .compression = true},
    .alpha = true,
    .plain = true,
    .members = true,
    .number = true,
    .metadata = GCONV_HOLDS_ALL | GCONV_HOLDS_TAGS,
    .threads = true,
    .reads_on_threads = true,
    .sniff = sniff,
    .open = gconv_tiff_open_reader,
    .read_rows = gconv_tiff_read_rows,
    .next = gconv_tiff_next_page,
    .take_palette = gconv_tiff_take_palette,
    .close = gconv_tiff_close_reader,
    .held_bytes = gconv_tiff_held_bytes,
    .start = gconv_tiff_start,
    .write_rows = gconv_tiff_write_rows,
    .add_frame = gconv_tiff_add_frame,
    .frames_differ = true,
    .row_step = gconv_tiff_row_step,
    .finish = gconv_tiff_finish,
    .end = gconv_tiff_end,
};
