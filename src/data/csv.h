/* SPDX-License-Identifier: MIT */
/* CSV in three files: csv_fields.c splits lines, csv_header.c finds the columns, csv.c reads rows. */
#pragma once

#include "data/field.h"
#include "data/table.h"

typedef struct gconv_csv_field {
  char *begin, *end; /* in the line; the character at `end` cannot continue a number */
} gconv_csv_field;

/* The first number with a mark of one kind, such as a decimal comma: its line and its text. */
typedef struct gconv_csv_mark {
  uint64_t line; /* 0: no field has one */
  char text[24];
} gconv_csv_mark;

typedef struct gconv_csv {
  gconv_lines lines;
  gconv_table *table;
  char separator;
  gconv_csv_field *fields; /* fields of the line */
  size_t count, room;
  size_t width;        /* fields of a row; 0 before the first line */
  uint64_t first_line; /* the line that set the width */
  size_t label;        /* the column of labels; SIZE_MAX: none */
  size_t passed;       /* number of first columns that number the rows, and are not inputs */
  char **header;       /* names of all fields, or NULL */
  size_t header_count;
  char *comment;  /* owned: the last comment above the table, which may name the columns: "a,b" or "# a b"; NULL: none */
  size_t *order;  /* owned: the field of each column of a model, by name; NULL: in the order of the file */
  size_t unknown; /* number of words that the model does not know; the text is the first one */
  char unknown_text[160];
  /* If commas do not separate fields, the first numbers such as "1.5", "1.234", "1,5" and "1,234". */
  gconv_csv_mark points, grouped_points, commas, grouped_commas;
} gconv_csv;

/* ---- csv_fields.c -------------------------------------------------------------------------------------------------- */

/* Finds the separator from the first lines, unless --separator names it. *named: the first line is "sep=;", as in
 * spreadsheets. */
gconv_status gconv_csv_choose_separator(gconv_csv *c, gconv_source *source, bool *named);

/* Splits the line into fields, without their quotes. */
gconv_status gconv_csv_split(gconv_csv *c);

/* Reads a field. If commas do not separate fields, a number may have a decimal comma. */
gconv_field gconv_csv_read(gconv_csv *c, const gconv_csv_field *field, double *value);

/* Fails if points and commas in the numbers contradict each other; warns if all commas may be marks of thousands. */
gconv_status gconv_csv_check_marks(const gconv_csv *c);

/* ---- csv_header.c -------------------------------------------------------------------------------------------------- */

/* Takes the comment as a header, if its fields may be names. */
gconv_status gconv_csv_try_comment(gconv_csv *c);

/* Decides whether the first line is a header, and keeps it if so. Else the comment is a header if it has as many fields. */
gconv_status gconv_csv_begin(gconv_csv *c, bool *header);

/* Finds the columns from the first line of numbers. *header: the line is a header after all. */
gconv_status gconv_csv_begin_rows(gconv_csv *c, bool *header);

void gconv_csv_free_header(gconv_csv *c);
