/* SPDX-License-Identifier: MIT */
/* Writes filters as text that gconv reads back exactly, to the last bit. */
#include "base/arguments.h"
#include "base/ending.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/printable.h"
#include "filter/number.h"
#include "filter/syntax.h"

#include <string.h>

static void write_rows(FILE *out, const gconv_filter *filter) {
  char number[GCONV_NUMBER_BYTES];
  const float *tap = filter->taps;
  for (int32_t r = 0; r < filter->rows; r++)
    for (int32_t s = 0; s < filter->columns; s++) {
      fputs(gconv_number_write(*tap++ + 0.0f, number), out); /* -0 becomes 0 */
      fputc(s + 1 < filter->columns ? ' ' : '\n', out);
    }
}

/* Writes the line between the comments and the rows. A plain matrix has none. */
static void write_header(FILE *out, const gconv_filter *filter, const gconv_syntax *syntax) {
  if (syntax == &gconv_syntax_vips) {
    char divisor[GCONV_NUMBER_BYTES], offset[GCONV_NUMBER_BYTES];
    fprintf(out, "%d %d %s %s\n", filter->columns, filter->rows, gconv_number_write(filter->divisor, divisor),
            gconv_number_write(filter->offset, offset));
  }
  if (syntax == &gconv_syntax_imagemagick)
    fprintf(out, "%dx%d+%d+%d:\n", filter->columns, filter->rows, filter->anchor_column, filter->anchor_row);
}

/* Writes the filters as a text of one syntax, and states the syntax if `state_syntax`. Several filters need the syntax of
 * ImageMagick: no other syntax separates filters. */
static gconv_status write_text(const gconv_filter *filters, size_t count, const gconv_syntax *syntax, bool state_syntax,
                               char **text, size_t *size) {
  char *buffer = NULL;
  FILE *out = open_memstream(&buffer, size);
  if (out && state_syntax) /* in the first line, because the comment with a filter's name could look like this one */
    fprintf(out, "# syntax: %s\n", syntax->name);
  for (size_t i = 0; out && i < count; i++) {
    if (i > 0)
      fputs(";\n", out);
    gconv_print(out, "# %s\n", filters[i].name ? filters[i].name : "filter"); /* a comment */
    write_header(out, &filters[i], syntax);
    write_rows(out, &filters[i]);
  }
  if (!out || !gconv_close_text(out, &buffer))
    return count == 1 ? gconv_fail(GCONV_NO_MEMORY, "no memory for the text of a filter")
                      : gconv_fail(GCONV_NO_MEMORY, "no memory for the text of %zu filters", count);
  *text = buffer;
  return GCONV_OK;
}

/* Chooses the simplest syntax that can express everything in the filter. */
static gconv_status choose_syntax(const gconv_filter *filter, const gconv_syntax **syntax) {
  bool scaled = filter->divisor != 1 || filter->offset != 0;
  bool centred = filter->anchor_row == filter->rows / 2 && filter->anchor_column == filter->columns / 2;
  if (scaled && !centred)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "%s: no text syntax holds both an anchor of its own and a divisor or offset; divide the taps first",
                      filter->name ? filter->name : "filter");
  *syntax = scaled ? &gconv_syntax_vips : centred ? &gconv_syntax_matrix : &gconv_syntax_imagemagick;
  return GCONV_OK;
}

gconv_status gconv_filter_to_text(const gconv_filter *filter, char **text) {
  const gconv_syntax *syntax = NULL, *found = NULL;
  char *plain = NULL;
  size_t size = 0;
  GCONV_NEED(filter, text);
  GCONV_TRY(gconv_filter_check(filter));
  GCONV_TRY(choose_syntax(filter, &syntax));
  GCONV_TRY(write_text(filter, 1, syntax, false, &plain, &size));
  gconv_content content = {"filter", (uint8_t *)plain, size};
  if (gconv_syntax_find(&content, &found) == GCONV_OK && found == syntax) {
    *text = plain;
    return GCONV_OK;
  }
  free(plain); /* another syntax recognises the text, too, so it must state its syntax */
  return write_text(filter, 1, syntax, true, text, &size);
}

static gconv_status kernels_to_text(const gconv_filters *filters, char **text) {
  for (size_t i = 0; i < filters->count; i++) {
    const gconv_filter *filter = &filters->items[i];
    if (filter->divisor != 1 || filter->offset != 0)
      return gconv_fail(GCONV_UNSUPPORTED,
                        "%s: a text of several filters holds no divisor or offset: write this filter by itself, or divide "
                        "its taps",
                        filter->name ? filter->name : "filter");
  }
  size_t size;
  return write_text(filters->items, filters->count, &gconv_syntax_imagemagick, true, text, &size);
}

gconv_status gconv_filters_write(const char *path, const gconv_filters *filters) {
  GCONV_FREED char *text = NULL;
  GCONV_NEED(path, filters);
  GCONV_TRY(gconv_filters_check(filters));
  GCONV_TRY(gconv_check_ending(path, "txt", "a filter", "gconv bank convert SPEC -o FILE.npy writes an array"));
  GCONV_TRY(filters->count == 1 ? gconv_filter_to_text(filters->items, &text) : kernels_to_text(filters, &text));
  return gconv_file_write(path, text, strlen(text));
}
