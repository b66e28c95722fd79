/* SPDX-License-Identifier: MIT */
/* JSON that the program prints: valid and complete, whatever bytes are in the names that it tells. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Returns a JSON string of any bytes, such as a file name: those that are no UTF-8 become a backslash, x, and two
 * hexadecimal digits each, as "caf\xe9.png" of Latin-1, which is what Python's bytes.decode("utf-8", "backslashreplace")
 * makes of them. NULL becomes JSON's null. Without memory, the result is NULL. */
json_t *gconv_json_text(const char *text);

/* Returns a JSON number with all bits of this one, or null for what is not finite, which JSON has no number for. */
json_t *gconv_json_number(double number);

/* Writes `json` and a line feed. `flags` are jansson's. Control characters beyond ASCII, which terminals would obey, are
 * escaped, as those of ASCII are. Returns false without memory, or if `json` is NULL: then nothing is written. */
bool gconv_json_print(FILE *out, const json_t *json, size_t flags);
