/* SPDX-License-Identifier: MIT */
/* Rows of numbers as a file, or for a pipe: CSV, .npy, or raw float32. */
#pragma once

#include "base/file.h"
#include "cli/options.h"

/* How --windows writes its rows of numbers. */
typedef enum gconv_rows_format { GCONV_ROWS_UNKNOWN, GCONV_ROWS_CSV, GCONV_ROWS_NPY, GCONV_ROWS_F32LE } gconv_rows_format;

/* Rows that are written. Zero-initialise before first use. */
typedef struct gconv_rows {
  gconv_sink *sink;
  gconv_rows_format format;
  size_t columns;
  uint64_t count;   /* rows so far */
  uint64_t counted; /* rows that the header of .npy has */
} gconv_rows;

/* *format, what --format asks for or GCONV_ROWS_UNKNOWN, becomes that of the output, by its extension if need be; what is no
 * file gets CSV. `naming` has the output, and a --format that is one of images. */
gconv_status gconv_rows_choose(const gconv_naming *naming, gconv_rows_format *format);

/* Begins the output. `names`: of the columns, for CSV; NULL: output1, output2 ... `expected`: how many rows there will be;
 * UINT64_MAX: unknown, then .npy needs a file. In any case, gconv_rows_discard() frees what gconv_rows_commit() did not. */
gconv_status gconv_rows_open(const char *path, gconv_rows_format format, size_t columns, char *const *names,
                             uint64_t expected, gconv_rows *rows);
/* Writes count x columns numbers; a pipe gets them at once. */
gconv_status gconv_rows_write(gconv_rows *rows, const float *numbers, size_t count);
gconv_status gconv_rows_commit(gconv_rows *rows, bool keep_existing);
void gconv_rows_discard(gconv_rows *rows);

/* Writes a field of CSV, in quotes where it needs them. Names come from files: a terminal gets none of their control
 * characters. */
gconv_status gconv_rows_field(gconv_sink *sink, bool terminal, const char *text);

/* As "%.9g", with which every float32 keeps its bits; much faster for most numbers. Returns the number of letters. */
enum { GCONV_NUMBER_LETTERS = 32 };
