/* SPDX-License-Identifier: MIT */
/* Numbers as people write them in filters, whatever the locale of the program is. */
#ifndef GCONV_FILTER_NUMBER_H
#define GCONV_FILTER_NUMBER_H

#include <stddef.h>

/*
 * Reads the number that is exactly the text begin .. end; *end must be readable, and no part of a number (a separator, or
 * the 0 behind a string). Decimal ("-1", ".5", "1.", "1e-3"), hexadecimal ("0x1.8p-3", "0x10"), or a fraction of two of
 * these ("1/9"). Rounded correctly to double; a fraction is divided in double.
 *
 * Returns NULL, or what is wrong with it as the end of a sentence: "is not a number". nan and inf are refused, and so is
 * what rounds to a float32 beyond the largest; what is too small becomes 0 or a denormal number.
 */
const char *gconv_number_read(const char *begin, const char *end, double *value);

enum { GCONV_NUMBER_BYTES = 32 };

/* Writes 9 significant digits, enough to tell every float32, with a '.' in every locale. Returns `text`. */
char *gconv_number_write(float value, char text[GCONV_NUMBER_BYTES]);

#endif
