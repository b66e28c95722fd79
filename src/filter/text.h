/* SPDX-License-Identifier: MIT */
/* Reads text with numbers: lines of fields. Each field has its place, for error texts. */
#pragma once

#include "filter/syntax.h"

/* A position in a text. Lines end with \n, \r\n or a lone \r, and count from 1. */
typedef struct gconv_text {
  const char *name; /* the name of the file */
  const char *at, *end;
  const char *line_start;
  size_t line;
  bool after_field; /* a field was read in this line, and no comma or semicolon after it */
} gconv_text;

/* A field, begin .. end. Columns count bytes from 1. It is empty if a comma or semicolon has no number before it. */
typedef struct gconv_field {
  const char *begin, *end;
  size_t line, column;
} gconv_field;

/* Begins at the start of the content, after a UTF-8 byte order mark. */
gconv_text gconv_text_begin(const gconv_content *content);

/* Fails if the content is not text in UTF-8: it is UTF-16, or has bytes that no text has. */
gconv_status gconv_text_check(const gconv_content *content);

/* Reads the next field of this line. Fields are separated by blanks, or by one comma or semicolon and blanks. A comment (#
 * or %) ends the line. At the end of the line, returns false, and *field is an empty field after the last one. */
bool gconv_text_field(gconv_text *text, gconv_field *field);

/* Goes to the next line. Returns false if there is none. */
bool gconv_text_next_line(gconv_text *text);

/* Goes to the next line that has a field, or stays if this line has one. Returns false if there is none. */
bool gconv_text_find_line(gconv_text *text);

/* Returns the current position of the text as an empty field. */
gconv_field gconv_text_place(const gconv_text *text);

bool gconv_field_is(const gconv_field *field, const char *word);

static inline bool gconv_ends_line(char c) {
  return c == '\n' || c == '\r';
}

/* Reads the number of a field. An error text shows the field with its place. */
gconv_status gconv_field_number(const gconv_text *text, const gconv_field *field, double *value);

/* Fails with "<name>:<line>:<column>: <formatted text>". */
gconv_status gconv_field_fail(const gconv_text *text, const gconv_field *field, gconv_status status, const char *format, ...)
    GCONV_PRINTF(4, 5);
