/* SPDX-License-Identifier: MIT */
#include "base/printable.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void gconv_make_printable(char *text) {
  for (char *at = text; at && *at;) {
    size_t bytes = gconv_utf8_bytes(at, strnlen(at, 4));
    unsigned char first = (unsigned char)*at;
    if (first == 0xc2 && bytes == 2 && (unsigned char)at[1] < 0xa0) /* U+0080 to U+009F */
      at[0] = at[1] = '?';
    else if (bytes < 2 && (first < ' ' || (first >= 0x7f && first < 0xa0)))
      *at = '?';
    at += bytes > 0 ? bytes : 1;
  }
}

char *gconv_printable_copy(const char *text, size_t length) {
  char *copy = strndup(text, gconv_utf8_cut(text, length));
  gconv_make_printable(copy);
  return copy;
}

/* Returns the format with blanks in place of ends of lines; release it with free(). */
static char *join_lines(const char *format) {
  char *copy = strdup(format);
  for (char *at = copy ? strchr(copy, '\n') : NULL; at; at = strchr(at, '\n'))
    *at = ' ';
  return copy;
}

/* Makes the text twice: with the format's ends of lines, and with blanks in their place. Both texts have the same length.
 * Where they differ, the end of a line is from the format, not from an argument. */
void gconv_print(FILE *out, const char *format, ...) {
  va_list arguments, again;
  char *joined = join_lines(format), *lines = NULL, *text = NULL;
  va_start(arguments, format);
  va_copy(again, arguments);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  if (!joined || vasprintf(&lines, format, arguments) < 0)
    lines = NULL;
  if (!lines || vasprintf(&text, joined, again) < 0)
    text = NULL;
#pragma GCC diagnostic pop
  va_end(again);
  va_end(arguments);
  gconv_make_printable(text);
  for (size_t i = 0; text && text[i]; i++)
    if (lines[i] == '\n' && text[i] == ' ')
      text[i] = '\n';
  fputs(text ? text : "no memory for this line\n", out);
  free(text);
  free(lines);
  free(joined);
}
