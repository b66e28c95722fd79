/* SPDX-License-Identifier: MIT */
/* Reads rows of numbers, one row a line, all of one length. Plain and vips matrices consist of such rows. */
#pragma once

#include "base/memory.h"
#include "filter/text.h"

/* Counts the rows of `text`, from its position to its end. Returns false if there are none, if their lengths differ, or if a
 * field has a ':', which no number has. Does not check numbers otherwise. */
bool gconv_rows_count(gconv_text text, size_t *rows, size_t *columns);

/* Reads the rows of `text`, from its position to its end, and appends them as a filter. There must be `rows` rows of
 * `columns` numbers. If these are 0, any number of rows is accepted, and all rows must be as long as the first. */
gconv_status gconv_rows_read(gconv_text *text, int32_t rows, int32_t columns, gconv_filters *list);

/* A list of numbers. Zero-initialise; free(values). */
typedef struct gconv_numbers {
  float *values;
  size_t count;
} gconv_numbers;

static inline void gconv_numbers_free(gconv_numbers *numbers) {
  free(numbers->values);
}

/* Appends a number. Fails with GCONV_TOO_LARGE beyond GCONV_FILTER_MAX_TAPS. `where` begins the error text. */
gconv_status gconv_numbers_add(gconv_numbers *numbers, float value, const char *where);
