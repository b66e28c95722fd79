/* SPDX-License-Identifier: MIT */
/* Numbers as people write them on a command line. */
#include "base/memory.h"
#include "cli/options.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* strtod() follows the locale, but this program never calls setlocale(): it is always "C". */
static bool parse_decimal(const char *text, char stop, double *number) {
  char *end;
  *number = strtod(text, &end);
  return end != text && *end == stop && isfinite(*number);
}

bool gconv_parse_number(const char *text, double *number) {
  double value, divisor = 1;
  const char *slash = strchr(text, '/');
  if (text[strspn(text, "0123456789+-.eE/")] != '\0' || !parse_decimal(text, slash ? '/' : '\0', &value) ||
      (slash && !parse_decimal(slash + 1, '\0', &divisor)) || !isfinite(value / divisor))
    return false;
  *number = value / divisor;
  return true;
}

bool gconv_parse_float(const char *text, double *number) {
  double value;
  if (!gconv_parse_number(text, &value) || isinf((float)value) || (value != 0 && (float)value == 0))
    return false;
  *number = value;
  return true;
}

bool gconv_parse_integer(const char *text, int64_t least, int64_t most, int64_t *integer) {
  if (text[strspn(text, "0123456789+-")] != '\0' || text[0] == '\0')
    return false;
  char *end;
  long long value = strtoll(text, &end, 10); /* an overflow gives LLONG_MIN or LLONG_MAX, far outside of least to most */
  if (end == text || *end != '\0' || value < least || value > most)
    return false;
  *integer = value;
  return true;
}

bool gconv_parse_count(const char *text, uint64_t *count) {
  static const char suffixes[] = "kMG";
  size_t length = strspn(text, "0123456789");
  uint64_t value = 0, unit = 1;
  if (length == 0 || length > 18) /* 18 digits fit in 63 bits */
    return false;
  for (size_t i = 0; i < length; i++)
    value = value * 10 + (uint64_t)(text[i] - '0');
  if (text[length] != '\0') {
    const char *suffix = strchr(suffixes, text[length]);
    if (!suffix || text[length + 1] != '\0')
      return false;
    for (const char *at = suffixes; at <= suffix; at++)
      unit *= 1000;
  }
  if (value == 0 || value > UINT64_MAX / unit)
    return false;
  *count = value * unit;
  return true;
}

/* Takes the next word of a list. False if it is too long for a number. *text is NULL after the last. */
static bool next_word(const char **text, char between, char word[64]) {
  const char *end = strchr(*text, between);
  int length = snprintf(word, 64, "%.*s", end ? (int)(end - *text) : INT_MAX, *text);
  *text = end ? end + 1 : NULL;
  return length < 64;
}

int gconv_parse_integers(const char *text, char between, int limit, int64_t least, int64_t most, int32_t *integers) {
  int count = 0;
  for (char word[64]; text && count < limit; count++) {
    int64_t value;
    if (!next_word(&text, between, word) || !gconv_parse_integer(word, least, most, &value))
      return 0;
    integers[count] = (int32_t)value;
  }
  return text ? 0 : count;
}

int gconv_parse_floats(const char *text, char between, int limit, double *numbers) {
  int count = 0;
  for (char word[64]; text && count < limit; count++)
    if (!next_word(&text, between, word) || !gconv_parse_float(word, &numbers[count]))
      return 0;
  return text ? 0 : count;
}

bool gconv_parse_share(const char *text, double *share) {
  size_t length = strlen(text), percent = length > 0 && text[length - 1] == '%';
  GCONV_FREED char *number = strndup(text, length - percent);
  bool good = number && gconv_parse_number(number, share);
  if (good && percent)
    *share /= 100;
  return good;
}
