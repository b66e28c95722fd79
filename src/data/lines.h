/* SPDX-License-Identifier: MIT */
/* Reads texts line by line, and rows of numbers in them. */
#pragma once

#include "base/file.h"

enum { GCONV_MOST_LINE_BYTES = 1 << 28 }; /* the most bytes of a line of a table */

/* Zero-initialise all but the source. */
typedef struct gconv_lines {
  gconv_source *source;
  bool quotes;   /* ends of lines between quotes (") are part of a line, as in CSV (RFC 4180) */
  char *text;    /* owned: the line, ended by a 0; the caller may change it */
  size_t size;   /* bytes of `text` */
  uint64_t line; /* the number of the line, from 1 on */
  /* private */
  const uint8_t *bytes; /* the bytes of the source that are not yet examined */
  size_t left, room;
  uint64_t ends; /* ends of lines that were read */
  bool had_return;
} gconv_lines;

/* Reads the next line; *found is false at the end of the text. Lines end by \n, \r\n or \r. GCONV_BAD_FILE if it is not a
 * text. */
gconv_status gconv_lines_next(gconv_lines *lines, bool *found);
/* Reads the next line that has more than blanks; *found is false at the end of the text. */
gconv_status gconv_lines_next_filled(gconv_lines *lines, bool *found);
void gconv_lines_free(gconv_lines *lines);

/* Fails with GCONV_BAD_FILE and the error "FILE:LINE: <formatted text>". */
gconv_status gconv_lines_fail(const gconv_lines *lines, const char *format, ...) GCONV_PRINTF(2, 3);

/* A growing row of numbers. Zero-initialise before first use. */
typedef struct gconv_row {
  double *items;
  size_t count;
} gconv_row;

gconv_status gconv_row_add(gconv_row *row, double number);
void gconv_row_free(gconv_row *row);

/* Appends all numbers of a line, which have blanks, commas or semicolons between them. Gaps (field.h) become NaN. */
gconv_status gconv_lines_numbers(gconv_lines *lines, gconv_row *row);
