/* SPDX-License-Identifier: MIT */
/* Makes the JSON that the program prints. It is valid and complete, whatever bytes are in names. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Sets a key of an object to a number, a boolean, a text, or a new json_t, whose reference it takes. gconv_json_text() makes
 * texts, gconv_json_number() floating-point numbers. A comparison is an int in C: cast it to bool. */
#define gconv_json_put(object, key, value)                                                                                  \
  _Generic((value),                                                                                                         \
      bool: gconv_json_put_bool,                                                                                            \
      float: gconv_json_put_number,                                                                                         \
      double: gconv_json_put_number,                                                                                        \
      char *: gconv_json_put_text,                                                                                          \
      const char *: gconv_json_put_text,                                                                                    \
      json_t *: json_object_set_new,                                                                                        \
      default: gconv_json_put_integer)(object, key, value)
int gconv_json_put_bool(json_t *object, const char *key, bool value);
int gconv_json_put_integer(json_t *object, const char *key, json_int_t value);
int gconv_json_put_number(json_t *object, const char *key, double value);
int gconv_json_put_text(json_t *object, const char *key, const char *value);

/* Returns a JSON string of any bytes, such as a file name. Each byte that is not valid UTF-8 becomes a backslash, x, and two
 * hexadecimal digits: "caf\xe9.png" for a name in Latin-1. Python's bytes.decode("utf-8", "backslashreplace") does the same.
 * NULL becomes JSON's null. Without memory, returns NULL. */
json_t *gconv_json_text(const char *text);

/* Returns a JSON number with all bits of `number`. Returns null if it is not finite, because JSON has no such numbers. */
json_t *gconv_json_number(double number);

/* Writes `json` and a line feed. `flags` are jansson's. Escapes control characters beyond ASCII, too, because terminals obey
 * them. Without memory, or if `json` is NULL, writes nothing, and returns false. */
bool gconv_json_print(FILE *out, const json_t *json, size_t flags);
