/* SPDX-License-Identifier: MIT */
/* Fields of tables: numbers, and the words of other programs for missing numbers. */
#pragma once

#include <stdbool.h>

/* What a field of a table is. */
typedef enum gconv_field {
  GCONV_FIELD_NUMBER,
  GCONV_FIELD_TEXT,
  GCONV_FIELD_NOT_FINITE, /* inf, and numbers too large for float32 */
  GCONV_FIELD_GAP         /* a number that is missing */
} gconv_field;

/* Reads the decimal number begin .. end, such as "-1.5e-3", into *value. Blanks around it are allowed. *end must be
 * readable. A gap is an empty field, or a word of pandas, R, spreadsheets, SQL, Weka, Julia or printf() for a missing
 * number: NA, NaN, null, #N/A, None, ? ... in upper or lower case. */
gconv_field gconv_field_read(const char *begin, const char *end, double *value);

/* True if a gap is a word that may also be the name of a class: "None", "missing". */
bool gconv_field_may_be_name(const char *begin, const char *end);

/* True if the field is 1 to 3 digits, the mark, and 3 digits: "1,234". The mark may separate thousands or fractions. */
bool gconv_field_is_like_thousands(const char *begin, const char *end, char mark);
