/* SPDX-License-Identifier: MIT */
#include "data/field.h"
#include "filter/number.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* Words for a missing number. Upper and lower case are the same. "#NV" and "#N/D" are "#N/A" in other languages. */
static const struct {
  const char *word;
  bool has_sign; /* "-nan" is a missing number, too */
  bool may_be_name;
} gaps[] = {{"NA", false, false},      {"NaN", true, false},       {"N/A", false, false},      {"null", false, false},
            {"?", false, false},       {"#N/A", false, false},     {"<NA>", false, false},     {"None", false, true},
            {"missing", false, true},  {"#NA", false, false},      {"#N/A N/A", false, false}, {"#NV", false, false},
            {"#N/D", false, false},    {"\\N", false, false},      {".", false, false},        {"nil", false, true},
            {"nan(ind)", true, false}, {"nan(snan)", true, false}, {"1.#IND", true, false},    {"1.#QNAN", true, false},
            {"1.#SNAN", true, false}};

/* Reads up to 15 digits with a point: a quotient of two exact doubles rounds such a number correctly. False for other
 * texts. */
static bool read_short(const char *at, const char *end, double *value) {
  enum { MOST_EXACT_DIGITS = 15 };
  static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  bool negative = *at == '-';
  int64_t digits = 0;
  int count = 0, behind = -1;
  at += *at == '-' || *at == '+';
  for (; at < end; at++) {
    if (*at == '.' && behind < 0) {
      behind = 0;
    } else if (isdigit((unsigned char)*at) && count < MOST_EXACT_DIGITS) {
      digits = digits * 10 + (*at - '0');
      count++;
      behind += behind >= 0;
    } else {
      return false;
    }
  }
  double number = behind > 0 ? (double)digits / powers[behind] : (double)digits;
  *value = negative ? -number : number;
  return count > 0;
}

/* True if the text has only characters of decimal numbers. Hexadecimal numbers and fractions have others. */
static bool looks_decimal(const char *at, const char *end) {
  while (at < end && strchr("0123456789.eE+-", *at))
    at++;
  return at == end;
}

static bool is_word(const char *word, const char *begin, const char *end) {
  const size_t length = (size_t)(end - begin);
  return strncasecmp(word, begin, length) == 0 && word[length] == '\0';
}

/* Leaves out blanks at both ends. */
static void trim(const char **begin, const char **end) {
  while (*begin < *end && isblank((unsigned char)**begin))
    (*begin)++;
  while (*begin < *end && isblank((unsigned char)(*end)[-1]))
    (*end)--;
}

/* Returns the row of `gaps` for a field without blanks at its ends; SIZE_MAX: none. */
static size_t find_gap(const char *begin, const char *end) {
  const bool has_sign = *begin == '-' || *begin == '+';
  for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
    if ((gaps[i].has_sign || !has_sign) && is_word(gaps[i].word, begin + has_sign, end))
      return i;
  return SIZE_MAX;
}

gconv_field gconv_field_read(const char *begin, const char *end, double *value) {
  trim(&begin, &end);
  if (begin == end)
    return GCONV_FIELD_GAP;
  if (read_short(begin, end, value))
    return GCONV_FIELD_NUMBER;
  const char *wrong = looks_decimal(begin, end) ? gconv_number_read(begin, end, value) : "is not a number";
  if (!wrong)
    return GCONV_FIELD_NUMBER;
  if (!strstr(wrong, "not a number"))
    return GCONV_FIELD_NOT_FINITE;
  if (find_gap(begin, end) != SIZE_MAX)
    return GCONV_FIELD_GAP;
  begin += *begin == '-' || *begin == '+';
  return is_word("inf", begin, end) || is_word("infinity", begin, end) ? GCONV_FIELD_NOT_FINITE : GCONV_FIELD_TEXT;
}

bool gconv_field_may_be_name(const char *begin, const char *end) {
  trim(&begin, &end);
  const size_t gap = begin < end ? find_gap(begin, end) : SIZE_MAX;
  return gap != SIZE_MAX && gaps[gap].may_be_name;
}

bool gconv_field_is_like_thousands(const char *begin, const char *end, char mark) {
  enum { BEHIND = 4 }; /* the mark and 3 digits */
  trim(&begin, &end);
  begin += begin < end && (*begin == '-' || *begin == '+');
  const ptrdiff_t before = end - begin - BEHIND;
  if (before < 1 || before > 3 || begin[before] != mark || *begin == '0')
    return false;
  for (const char *at = begin; at < end; at++)
    if (!isdigit((unsigned char)*at) && at != begin + before)
      return false;
  return true;
}
