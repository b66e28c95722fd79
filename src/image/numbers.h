/* SPDX-License-Identifier: MIT */
/* Samples of files that have planes of numbers of any type, with a scale: FITS and NIfTI. */
#pragma once

#include "base/element.h"
#include "image/format.h"

/* How a file stores its numbers: a number is stored * scale + offset. */
typedef struct gconv_numbers_file {
  gconv_element element;
  double scale, offset;
  bool has_blank; /* the stored number `blank` is no data */
  int64_t blank;
} gconv_numbers_file;

/* Sets the type of the header. It is u8 or u16 if the stored numbers are such levels without scale and offset, u16 for int16
 * with the offset 32768, else f32. For levels, `blank` becomes the header's no data. */
void gconv_numbers_set_type(const gconv_numbers_file *file, gconv_image *header);

/* Reads the next rows, one after the other. Blank floats become NaN. */
gconv_status gconv_numbers_read_rows(gconv_reader *reader, const gconv_numbers_file *file, void *rows, size_t row_bytes,
                                     int32_t count);
