/* SPDX-License-Identifier: MIT */
#include "base/printable.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of the character of UTF-8 at `at`, 2 to 4; 0 if there is none, or one of a single byte. Forms that are longer
 * than they need to be are not valid, and neither are surrogates and what is beyond U+10FFFF. */
static int count_bytes(const unsigned char *at) {
  unsigned char least = at[0] == 0xE0 ? 0xA0 : at[0] == 0xF0 ? 0x90 : 0x80; /* of the second byte */
  unsigned char most = at[0] == 0xED ? 0x9F : at[0] == 0xF4 ? 0x8F : 0xBF;
  int bytes = at[0] < 0xC2 || at[0] > 0xF4 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
  if (bytes == 0 || at[1] < least || at[1] > most)
    return 0;
  for (int i = 2; i < bytes; i++)
    if ((at[i] & 0xC0) != 0x80)
      return 0;
  return bytes;
}

/* U+0080 to U+009F, in UTF-8. */
static bool is_c1(const unsigned char *at) {
  return at[0] == 0xC2 && at[1] >= 0x80 && at[1] <= 0x9F;
}

void gconv_make_printable(char *text) {
  for (unsigned char *at = (unsigned char *)text; at && *at;) {
    int bytes = count_bytes(at);
    if (is_c1(at))
      at[0] = at[1] = '?';
    else if (bytes == 0 && (*at < ' ' || (*at >= 0x7F && *at <= 0x9F)))
      *at = '?';
    at += bytes > 0 ? bytes : 1;
  }
}

char *gconv_printable_copy(const char *text, size_t length) {
  char *copy = strndup(text, length);
  gconv_make_printable(copy);
  return copy;
}

/* The format, with blanks in place of ends of lines, for free(). */
static char *join_lines(const char *format) {
  char *copy = strdup(format);
  for (char *at = copy ? strchr(copy, '\n') : NULL; at; at = strchr(at, '\n'))
    *at = ' ';
  return copy;
}

/* The same text is made twice, with the ends of lines of the format and with blanks in their place. Both have the same
 * length, and where they differ, the end of a line is one of the format. */
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
