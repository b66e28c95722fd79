/* SPDX-License-Identifier: MIT */
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

json_t *gconv_json_text(const char *text) {
  enum { ESCAPE_BYTES = 4 };
  if (!text)
    return json_null();
  size_t size = strlen(text), used = 0;
  if (gconv_utf8_is_whole(text, size))
    return json_string(text);
  GCONV_FREED char *whole = size < SIZE_MAX / ESCAPE_BYTES ? malloc(ESCAPE_BYTES * size + 1) : NULL;
  if (!whole)
    return NULL;
  for (size_t i = 0; i < size;) {
    size_t bytes = gconv_utf8_bytes(text + i, size - i);
    if (bytes == 0) {
      snprintf(whole + used, ESCAPE_BYTES + 1, "\\x%02x", (unsigned char)text[i]);
      used += ESCAPE_BYTES;
      i++;
      continue;
    }
    memcpy(whole + used, text + i, bytes);
    used += bytes;
    i += bytes;
  }
  whole[used] = '\0';
  json_t *string = json_string(whole);
  return string;
}

json_t *gconv_json_number(double number) {
  return isfinite(number) ? json_real(number) : json_null();
}

int gconv_json_put_bool(json_t *object, const char *key, bool value) {
  return json_object_set_new(object, key, json_boolean(value));
}

int gconv_json_put_integer(json_t *object, const char *key, json_int_t value) {
  return json_object_set_new(object, key, json_integer(value));
}

int gconv_json_put_number(json_t *object, const char *key, double value) {
  return json_object_set_new(object, key, gconv_json_number(value));
}

int gconv_json_put_text(json_t *object, const char *key, const char *value) {
  return json_object_set_new(object, key, gconv_json_text(value));
}

/* Writes `text`, and escapes control characters that JSON does not escape: U+0080 to U+009F, which are the
 * bytes c2 80 to c2 9f, and DEL, one byte. */
static void put_escaped(FILE *out, const char *text) {
  for (const char *at = text; *at; at++) {
    bool control = (unsigned char)at[0] == 0xc2 && (unsigned char)at[1] < 0xa0;
    if (control || *at == 0x7f)
      fprintf(out, "\\u%04x", (unsigned char)(control ? *++at : *at));
    else
      fputc(*at, out);
  }
}

bool gconv_json_print(FILE *out, const json_t *json, size_t flags) {
  GCONV_FREED char *text = json ? json_dumps(json, flags) : NULL;
  if (!text)
    return false;
  put_escaped(out, text);
  fputc('\n', out);
  return true;
}
