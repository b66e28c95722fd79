/* SPDX-License-Identifier: MIT */
/* Makes the JSON that the program prints. It is valid and complete, whatever bytes are in names. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Returns a JSON string of any bytes, such as a file name. Each byte that is no UTF-8 becomes a backslash, x, and two
 * hexadecimal digits: "caf\xe9.png" for a name in Latin-1. Python's bytes.decode("utf-8", "backslashreplace") does the same.
 * NULL becomes JSON's null. Without memory, returns NULL. */
json_t *gconv_json_text(const char *text);

/* Returns a JSON number with all bits of `number`, or null if it is not finite, as JSON has no such numbers. */
json_t *gconv_json_number(double number);

/* Writes `json` and a line feed. `flags` are jansson's. Escapes control characters beyond ASCII, too, as terminals would
 * obey them. Returns false without memory, or if `json` is NULL, and writes nothing then. */
bool gconv_json_print(FILE *out, const json_t *json, size_t flags);
