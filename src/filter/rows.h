/* SPDX-License-Identifier: MIT */
/* Rows of numbers, one row a line, all of one length. Plain and vips matrices are made of them. */
#pragma once

#include "filter/text.h"

/* Counts the rows of `text`, from its position to its end. Returns false if there are none, if their lengths differ, or if a
 * field has a ':', which no number has. Numbers are not checked otherwise. */
bool gconv_rows_count(gconv_text text, size_t *rows, size_t *columns);

/* Appends the filter that the rows of `text` are, from its position to its end. It must have `rows` rows and `columns`
 * columns; 0 accepts any number of rows, and as many columns as the first row has. */
gconv_status gconv_rows_read(gconv_text *text, int32_t rows, int32_t columns, gconv_filters *list);

/* A list of numbers. Zero-initialise; free(values). */
typedef struct gconv_numbers {
  float *values;
  size_t count;
} gconv_numbers;

/* Appends a number; GCONV_TOO_LARGE beyond GCONV_FILTER_MAX_TAPS. `where` starts the error text. */
gconv_status gconv_numbers_add(gconv_numbers *numbers, float value, const char *where);
