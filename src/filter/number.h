/* SPDX-License-Identifier: MIT */
/* Reads and writes numbers as people write them in filters, whatever the program's locale is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads a number, which must be the whole text begin .. end. *end must be readable, and must not continue a number: it is a
 * separator, or the 0 after a string. A number is decimal ("-1", ".5", "1.", "1e-3"), hexadecimal ("0x1.8p-3", "0x10"), or a
 * fraction of two of these ("1/9"). It is rounded correctly to double; a fraction is divided in double.
 *
 * Returns NULL, or the error as the end of a sentence: "is not a number". nan and inf are refused, and so are numbers too
 * large for float32. Numbers too small become 0 or denormal.
 */
const char *gconv_number_read(const char *begin, const char *end, double *value);

/* Reads a whole number of at most INT32_MAX. The text begin .. end must have only digits. Otherwise returns false. */
bool gconv_count_read(const char *begin, const char *end, int32_t *value);

enum { GCONV_NUMBER_BYTES = 32 };

/* Writes 9 significant digits, which determine every float32, with a '.' in every locale. Returns `text`. */
char *gconv_number_write(float value, char text[GCONV_NUMBER_BYTES]);
