/* SPDX-License-Identifier: MIT */
#include "filter/rows.h"

#include <string.h>

/* Returns the number of fields of the line, or 0 if one of them cannot be a number. */
static size_t count_fields(gconv_text *text) {
  size_t count = 0;
  gconv_field field;
  for (; gconv_text_field(text, &field); count++)
    if (memchr(field.begin, ':', (size_t)(field.end - field.begin)))
      return 0;
  return count;
}

bool gconv_rows_count(gconv_text text, size_t *rows, size_t *columns) {
  *rows = *columns = 0;
  for (; gconv_text_find_line(&text); (*rows)++) {
    size_t count = count_fields(&text);
    if (count == 0 || (*rows > 0 && count != *columns))
      return false;
    *columns = count;
  }
  return *rows > 0;
}

gconv_status gconv_numbers_add(gconv_numbers *numbers, float value, const char *where) {
  if (numbers->count == GCONV_FILTER_MAX_TAPS)
    return gconv_fail(GCONV_TOO_LARGE, "%s: more than %d numbers, which is the limit of a filter", where,
                      GCONV_FILTER_MAX_TAPS);
  GCONV_GROW(numbers->values, numbers->count, "%s: no memory for its numbers", where);
  numbers->values[numbers->count++] = value;
  return GCONV_OK;
}

/* Warns of text that other programs or people read differently. "1 2; 3 4" on one line is two rows in MATLAB, but gconv
 * reads one row, because some people write "1; 2; 3". gconv reads "0,5 0,25" as four numbers; with decimal commas it is two.
 */
static void warn_mixed(const gconv_text *text, size_t line, const char *separator) {
  gconv_warn("%s:%zu: '%s' and other separators are mixed; both separate the numbers of one row here: write one row a line, "
             "and decimal points, not commas",
             text->name, line, separator);
}

/* Reads one row, and sets *width to its length. If *width was not 0, the row must have this length. */
static gconv_status read_row(gconv_text *text, int32_t *width, gconv_numbers *numbers) {
  int32_t count = 0, semicolons = 0, commas = 0;
  gconv_field field;
  for (const char *last = NULL; gconv_text_field(text, &field); last = field.end, count++) {
    if (*width > 0 && count == *width)
      return gconv_field_fail(text, &field, GCONV_BAD_FILE,
                              "this row has more than the %d numbers expected; all rows have "
                              "one length",
                              *width);
    if (count == GCONV_FILTER_MAX_SIDE)
      return gconv_field_fail(text, &field, GCONV_TOO_LARGE, "a row of more than %d numbers, which is the limit of a filter",
                              GCONV_FILTER_MAX_SIDE);
    double value;
    GCONV_TRY(gconv_field_number(text, &field, &value));
    GCONV_TRY(gconv_numbers_add(numbers, (float)value, text->name));
    semicolons += last && memchr(last, ';', (size_t)(field.begin - last));
    commas += last && memchr(last, ',', (size_t)(field.begin - last));
  }
  if (*width > 0 && count < *width)
    return gconv_field_fail(text, &field, GCONV_BAD_FILE,
                            "this row ends after %d of the %d numbers expected; all rows have "
                            "one length",
                            count, *width);
  if (semicolons > 0 && semicolons < count - 1)
    warn_mixed(text, field.line, ";");
  else if (commas > 0 && commas < count - 1)
    warn_mixed(text, field.line, ",");
  *width = count;
  return GCONV_OK;
}

/* Returns whether an empty line follows the line of `at`, before `end`. */
static bool has_empty_line(const char *at, const char *end) {
  bool empty = false;
  for (; at < end; at++)
    if (*at == '\n' || (*at == '\r' && (at + 1 == end || at[1] != '\n'))) {
      if (empty)
        return true;
      empty = true;
    } else if (*at != ' ' && *at != '\t' && *at != '\r') {
      empty = false;
    }
  return false;
}

/* Warns of an empty line: the user may mean several filters, one below the other, but all rows are read as one filter. */
static void warn_empty_line(const gconv_text *text, size_t line, int32_t rows) {
  gconv_warn("%s:%zu: an empty line ends no filter: all %d rows are one filter; a file of several is one of ImageMagick or "
             "a .npy file, as gconv make writes it",
             text->name, line, rows);
}

static gconv_status read_numbers(gconv_text *text, int32_t *rows, int32_t *columns, gconv_numbers *numbers) {
  int32_t wanted = *rows, count = 0;
  size_t gap = 0;
  for (const char *behind = text->at; gconv_text_find_line(text); count++, behind = text->at) {
    if (wanted == 0 && count > 0 && has_empty_line(behind, text->at))
      gap = text->line - 1;
    if (wanted > 0 && count == wanted)
      return gconv_fail(GCONV_BAD_FILE, "%s:%zu: more than the %d rows that the first line promises", text->name, text->line,
                        wanted);
    if (count == GCONV_FILTER_MAX_SIDE)
      return gconv_fail(GCONV_TOO_LARGE, "%s:%zu: more than %d rows, which is the limit of a filter", text->name, text->line,
                        GCONV_FILTER_MAX_SIDE);
    GCONV_TRY(read_row(text, columns, numbers));
  }
  if (count == 0 || count < wanted)
    return wanted == 0
               ? gconv_fail(GCONV_BAD_FILE, "%s: has no numbers; a filter has at least one row of them", text->name)
               : gconv_fail(GCONV_BAD_FILE, "%s:%zu: the text ends after %d of the %d rows that the first line promises",
                            text->name, text->line, count, wanted);
  if (gap > 0)
    warn_empty_line(text, gap, count);
  *rows = count;
  return GCONV_OK;
}

gconv_status gconv_rows_read(gconv_text *text, int32_t rows, int32_t columns, gconv_filters *list) {
  GCONV_ENDED_BY(gconv_numbers_free) gconv_numbers numbers = {0};
  gconv_filter *filter = NULL;
  GCONV_TRY(read_numbers(text, &rows, &columns, &numbers));
  GCONV_TRY(gconv_filters_add(list, rows, columns, &filter));
  memcpy(filter->taps, numbers.values, numbers.count * sizeof *filter->taps);
  return GCONV_OK;
}
