/* SPDX-License-Identifier: MIT */
/* Samples of files that have planes of numbers of any type, with a scale: FITS and NIfTI. */
#pragma once

#include "base/element.h"
#include "image/format.h"

/* How a file has its numbers: a number means stored * scale + offset. */
typedef struct gconv_numbers_file {
  gconv_element element;
  double scale, offset;
  bool has_blank; /* the stored number `blank` is no data */
  int64_t blank;
} gconv_numbers_file;

/* Sets the type of the header: u8 and u16 for numbers that are levels as they are, or int16 with the offset 32768; else f32,
 * of the numbers that are meant. Blank levels become the header's no data. */
void gconv_numbers_set_type(const gconv_numbers_file *file, gconv_image *header);

/* Reads the next rows, one after the other. Blank floats become NaN. */
gconv_status gconv_numbers_read_rows(gconv_reader *reader, const gconv_numbers_file *file, void *rows, size_t row_bytes,
                                     int32_t count);
