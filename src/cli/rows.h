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

/* *format, from --format, is the format of the output. If it is GCONV_ROWS_UNKNOWN, sets it by the extension, or to CSV if
 * the output is no file. `naming` has the output, and a --format of images. */
gconv_status gconv_rows_choose(const gconv_naming *naming, gconv_rows_format *format);

/* Begins the output. `names`: of the columns, for CSV; NULL: output1, output2 ... `expected`: how many rows there will be;
 * UINT64_MAX: not known, so that .npy needs a file. gconv_rows_discard() must follow in any case, to free the rest. */
gconv_status gconv_rows_open(const char *path, gconv_rows_format format, size_t columns, char *const *names,
                             uint64_t expected, gconv_rows *rows);
/* Writes count x columns numbers; a pipe gets them at once. */
gconv_status gconv_rows_write(gconv_rows *rows, const float *numbers, size_t count);
gconv_status gconv_rows_commit(gconv_rows *rows, bool keep_existing);
void gconv_rows_discard(gconv_rows *rows);

/* Writes a field of CSV, in quotes if it needs them. A terminal gets no control characters, which names may have. */
gconv_status gconv_rows_field(gconv_sink *sink, bool terminal, const char *text);

/* Writes a number as "%.9g" does, with which every float32 keeps its bits; mostly much faster. Returns the number of
 * letters. */
enum { GCONV_NUMBER_LETTERS = 32 };
