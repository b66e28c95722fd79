/* SPDX-License-Identifier: MIT */
/* Reads arrays in brackets, and parts of the text around them, for array.c. */
#pragma once

#include "base/memory.h"
#include "filter/text.h"

/* A matrix of float64. Zero-initialise; free(values). */
typedef struct gconv_matrix {
  double *values; /* rows * columns, by rows */
  int32_t rows, columns;
} gconv_matrix;

static inline void gconv_matrix_free(gconv_matrix *matrix) {
  free(matrix->values);
}

/* Skips blanks, comments and ends of lines. Returns whether there was an end of a line. */
bool gconv_array_skip_space(gconv_text *text);

/* Skips space, and `word` if it is next. Returns whether it was. */
bool gconv_array_take(gconv_text *text, const char *word);

/* Fails with GCONV_BAD_FILE. The error has the place, the text there, and `what`. */
gconv_status gconv_array_fail(const gconv_text *text, const char *what);

/* Reads a number as programs write it, up to a separator, a bracket, or one of `ends`. It may end with f, as in C. */
gconv_status gconv_array_number(gconv_text *text, const char *ends, double *value);

/* Makes a matrix whose values are not set. Fails with GCONV_TOO_LARGE beyond the limits of a filter. */
gconv_status gconv_matrix_make(const char *where, int64_t rows, int64_t columns, gconv_matrix *matrix);

/* Reads an array. Its opening bracket must be next. */
gconv_status gconv_array_brackets(gconv_text *text, gconv_matrix *matrix);
