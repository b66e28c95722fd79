/* SPDX-License-Identifier: MIT */
#include "filter/text.h"
#include "filter/number.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 24 }; /* bytes of a field that an error text shows */

gconv_text gconv_text_begin(const gconv_content *content) {
  const char *text = (const char *)content->bytes;
  size_t mark = content->size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
  return (gconv_text){content->name, text + mark, text + content->size, text + mark, 1, false};
}

gconv_status gconv_text_check(const gconv_content *content) {
  const uint8_t *bytes = content->bytes;
  if (content->size >= 2 && ((bytes[0] == 0xFF && bytes[1] == 0xFE) || (bytes[0] == 0xFE && bytes[1] == 0xFF)))
    return gconv_fail(GCONV_BAD_FILE, "%s: is UTF-16 text; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)", content->name);
  for (size_t i = 0; i < content->size; i++)
    if (bytes[i] == 0x7F || (bytes[i] < ' ' && !memchr("\t\n\v\f\r", bytes[i], 5)))
      return gconv_fail(GCONV_BAD_FILE,
                        "%s: is not a filter: byte %zu is 0x%02X, which no text has; a filter is text with rows of numbers "
                        "(saved as UTF-8), or a .npy file",
                        content->name, i + 1, bytes[i]);
  return GCONV_OK;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static bool is_punctuation(char c) {
  return c == ',' || c == ';';
}

static bool is_comment(char c) {
  return c == '#' || c == '%';
}

/* Skips blanks, and one comma or semicolon if a field is before it. */
static void skip_separator(gconv_text *text) {
  for (; text->at < text->end; text->at++) {
    bool separates = is_punctuation(*text->at) && text->after_field;
    if (!is_blank(*text->at) && !separates)
      return;
    if (separates)
      text->after_field = false;
  }
}

gconv_field gconv_text_place(const gconv_text *text) {
  return (gconv_field){text->at, text->at, text->line, (size_t)(text->at - text->line_start) + 1};
}

bool gconv_field_is(const gconv_field *field, const char *word) {
  size_t length = strlen(word);
  return (size_t)(field->end - field->begin) == length && memcmp(field->begin, word, length) == 0;
}

bool gconv_text_field(gconv_text *text, gconv_field *field) {
  skip_separator(text);
  const char *at = text->at;
  *field = gconv_text_place(text);
  if (at == text->end || gconv_ends_line(*at) || is_comment(*at))
    return false;
  if (is_punctuation(*at)) { /* an empty field */
    text->at++;
    return true;
  }
  while (at < text->end && !gconv_ends_line(*at) && !is_blank(*at) && !is_punctuation(*at) && !is_comment(*at))
    at++;
  text->at = field->end = at;
  text->after_field = true;
  return true;
}

bool gconv_text_next_line(gconv_text *text) {
  while (text->at < text->end && !gconv_ends_line(*text->at))
    text->at++;
  if (text->at == text->end)
    return false;
  text->at += text->at[0] == '\r' && text->end - text->at > 1 && text->at[1] == '\n' ? 2 : 1;
  text->line_start = text->at;
  text->line++;
  text->after_field = false;
  return true;
}

bool gconv_text_find_line(gconv_text *text) {
  do {
    gconv_text ahead = *text;
    gconv_field field;
    if (gconv_text_field(&ahead, &field))
      return true;
  } while (gconv_text_next_line(text));
  return false;
}

gconv_status gconv_field_fail(const gconv_text *text, const gconv_field *field, gconv_status status, const char *format,
                              ...) {
  char message[512];
  GCONV_FORMAT(message, sizeof message, format);
  return gconv_fail(status, "%s:%zu:%zu: %s", text->name, field->line, field->column, message);
}

gconv_status gconv_field_number(const gconv_text *text, const gconv_field *field, double *value) {
  if (field->begin == field->end)
    return gconv_field_fail(text, field, GCONV_BAD_FILE, "a number is missing before the '%c'", *field->begin);
  const char *wrong = gconv_number_read(field->begin, field->end, value);
  if (!wrong)
    return GCONV_OK;
  size_t length = (size_t)(field->end - field->begin);
  bool cut = length > SHOWN_BYTES;
  return gconv_field_fail(text, field, GCONV_BAD_FILE, "'%.*s%s' %s", cut ? SHOWN_BYTES : (int)length, field->begin,
                          cut ? "..." : "", wrong);
}
