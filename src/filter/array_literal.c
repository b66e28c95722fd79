/* SPDX-License-Identifier: MIT */
/* Reads arrays in brackets. Rows have brackets of their own, or end at a ';' or at the end of a line. */
#include "filter/array_literal.h"

#include <string.h>

/* An array that is being read. */
typedef struct array {
  gconv_text *text;
  double *values;
  size_t used;
  int32_t rows, columns;
  int32_t count;   /* numbers in the current row */
  bool after_item; /* an item was read in this row, and no comma after it */
} array;

static bool starts_comment(const gconv_text *text) {
  return *text->at == '#' || *text->at == '%' || (*text->at == '/' && text->at[1] == '/');
}

static void skip_comment(gconv_text *text) {
  while (text->at < text->end && !gconv_ends_line(*text->at))
    text->at++;
}

bool gconv_array_skip_space(gconv_text *text) {
  size_t line = text->line;
  while (text->at < text->end)
    if (gconv_ends_line(*text->at))
      gconv_text_next_line(text);
    else if (starts_comment(text))
      skip_comment(text);
    else if (strchr(" \t\v\f", *text->at))
      text->at++;
    else
      break;
  return text->line > line;
}

bool gconv_array_take(gconv_text *text, const char *word) {
  gconv_array_skip_space(text);
  size_t length = strlen(word);
  if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0)
    return false;
  text->at += length;
  return true;
}

gconv_status gconv_array_fail(const gconv_text *text, const char *what) {
  gconv_field field = gconv_text_place(text);
  size_t left = (size_t)(text->end - text->at), shown = left < 24 ? left : 24;
  for (size_t i = 0; i < shown; i++)
    if (gconv_ends_line(text->at[i]))
      shown = i;
  return shown == 0 ? gconv_field_fail(text, &field, GCONV_BAD_FILE, "%s", what)
                    : gconv_field_fail(text, &field, GCONV_BAD_FILE, "at '%.*s': %s", (int)shown, text->at, what);
}

gconv_status gconv_array_number(gconv_text *text, const char *ends, double *value) {
  const char *end = text->at;
  while (end < text->end && !gconv_ends_line(*end) && !strchr(" \t\v\f,;[]{}()*#%", *end) && !strchr(ends, *end))
    end++;
  gconv_field field = gconv_text_place(text);
  field.end = end;
  bool hexadecimal = memchr(text->at, 'x', (size_t)(end - text->at)) || memchr(text->at, 'X', (size_t)(end - text->at));
  if (end - text->at > 1 && (end[-1] == 'f' || end[-1] == 'F') && !hexadecimal)
    field.end--;
  text->at = end;
  return gconv_field_number(text, &field, value);
}

gconv_status gconv_matrix_make(const char *where, int64_t rows, int64_t columns, gconv_matrix *matrix) {
  GCONV_TRY(gconv_filter_check_size(where, rows, columns));
  *matrix = (gconv_matrix){malloc((size_t)(rows * columns) * sizeof(double)), (int32_t)rows, (int32_t)columns};
  return matrix->values ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for an array", where);
}

/* ---- Rows ---- */

static gconv_status end_row(array *a) {
  if (a->count == 0)
    return gconv_array_fail(a->text, "a row without numbers ends here");
  if (a->rows > 0 && a->count != a->columns)
    return gconv_fail(GCONV_BAD_FILE, "%s:%zu: row %d has %d number%s, and the first has %d; all rows have one length",
                      a->text->name, a->text->line, a->rows + 1, a->count, a->count == 1 ? "" : "s", a->columns);
  a->columns = a->count;
  a->count = 0;
  a->rows++;
  return GCONV_OK;
}

static gconv_status grow(array *a) {
  if (a->used >= GCONV_FILTER_MAX_TAPS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: more than %d numbers; that is the limit", a->text->name, GCONV_FILTER_MAX_TAPS);
  GCONV_GROW(a->values, a->used, "%s: no memory for an array", a->text->name);
  return GCONV_OK;
}

static gconv_status add_number(array *a) {
  GCONV_TRY(grow(a));
  GCONV_TRY(gconv_array_number(a->text, "", &a->values[a->used]));
  a->used++;
  a->count++;
  a->after_item = true;
  return GCONV_OK;
}

/* Reads the brackets, commas and numbers of one row, after its opening bracket, up to `closer`. */
static gconv_status read_inner_row(array *a, char closer) {
  for (a->after_item = false;;) {
    gconv_array_skip_space(a->text);
    if (a->text->at == a->text->end)
      return gconv_array_fail(a->text, "the array ends before the bracket of this row is closed");
    if (*a->text->at == closer)
      break;
    if (strchr("[{", *a->text->at))
      return gconv_array_fail(a->text,
                              "a filter has two levels of brackets: rows, and numbers; give several filters one by one");
    if (*a->text->at == ',' && a->after_item) {
      a->after_item = false;
      a->text->at++;
    } else {
      GCONV_TRY(add_number(a));
    }
  }
  GCONV_TRY(end_row(a));
  a->text->at++;
  a->after_item = true;
  return GCONV_OK;
}

/* Takes one step inside the outer brackets. Rows are in brackets (`nested`), or end with ';' or a line. */
static gconv_status read_item(array *a, bool nested) {
  char c = *a->text->at;
  if (c == '[' || c == '{') {
    if (!nested)
      return gconv_array_fail(a->text, "numbers in brackets stand beside numbers without");
    a->text->at++;
    return read_inner_row(a, c == '[' ? ']' : '}');
  }
  if (c == ';') {
    if (!nested)
      GCONV_TRY(end_row(a));
  } else if (c != ',' || !a->after_item) {
    return nested && c != ',' ? gconv_array_fail(a->text, "a number stands beside rows in brackets") : add_number(a);
  }
  a->after_item = false;
  a->text->at++;
  return GCONV_OK;
}

static gconv_status read_brackets(array *a) {
  char closer = *a->text->at++ == '[' ? ']' : '}';
  gconv_array_skip_space(a->text);
  bool nested = a->text->at < a->text->end && strchr("[{", *a->text->at);
  for (a->after_item = false;;) {
    if (gconv_array_skip_space(a->text) && !nested && a->count > 0) {
      GCONV_TRY(end_row(a));
      a->after_item = false;
    }
    if (a->text->at == a->text->end)
      return gconv_array_fail(a->text, "the text ends before the brackets of the array are closed");
    if (*a->text->at == closer)
      break;
    GCONV_TRY(read_item(a, nested));
  }
  if (!nested && (a->count > 0 || a->rows == 0))
    GCONV_TRY(end_row(a));
  a->text->at++;
  return GCONV_OK;
}

gconv_status gconv_array_brackets(gconv_text *text, gconv_matrix *matrix) {
  array a = {.text = text};
  gconv_status status = read_brackets(&a);
  GCONV_THEN(status, gconv_filter_check_size(text->name, a.rows, a.columns));
  if (status == GCONV_OK)
    *matrix = (gconv_matrix){a.values, a.rows, a.columns};
  else
    free(a.values);
  return status;
}
