/* SPDX-License-Identifier: MIT */
/* Writes rows of numbers into a file or a pipe: as CSV, .npy, or raw float32. */
#pragma once

#include "base/file.h"
#include "cli/options.h"

/* How --windows writes its rows of numbers. */
typedef enum gconv_rows_format { GCONV_ROWS_UNKNOWN, GCONV_ROWS_CSV, GCONV_ROWS_NPY, GCONV_ROWS_F32LE } gconv_rows_format;

/* An output for rows. Zero-initialise before first use. */
typedef struct gconv_rows {
  gconv_sink *sink;
  gconv_rows_format format;
  size_t columns;
  uint64_t count;   /* rows written so far */
  uint64_t counted; /* the number of rows in the header of .npy */
} gconv_rows;

/* Chooses the format of the output. *format has the value of --format. If that is GCONV_ROWS_UNKNOWN, the extension decides;
 * a pipe gets CSV. `naming` has the path of the output and, if --format named a format of images, this format. */
gconv_status gconv_rows_choose(const gconv_naming *naming, gconv_rows_format *format);

/* Begins the output. `names` are those of the columns, for CSV; NULL: output1, output2 ... `expected` is how many rows there
 * will be; UINT64_MAX: not known, so that .npy needs a file. Call gconv_rows_discard() in the end, even after a failure. */
gconv_status gconv_rows_open(const char *path, gconv_rows_format format, size_t columns, char *const *names,
                             uint64_t expected, gconv_rows *rows);
/* Writes count x columns numbers; a pipe gets them at once. */
gconv_status gconv_rows_write(gconv_rows *rows, const float *numbers, size_t count);
gconv_status gconv_rows_commit(gconv_rows *rows, bool keep_existing);
void gconv_rows_discard(gconv_rows *rows);

/* Writes a field of CSV, in quotes if needed. If `terminal`, control characters are replaced. */
gconv_status gconv_rows_field(gconv_sink *sink, bool terminal, const char *text);
