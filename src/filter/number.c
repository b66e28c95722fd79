/* SPDX-License-Identifier: MIT */
#include "filter/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The least magnitude that rounds to infinity in float32: halfway from the largest float, (2 - 2^-23) * 2^127, to 2^128. */
#define FLOAT_OVERFLOW 0x1.ffffffp127

/* The C locale, made once and kept until the process ends. So a host program may set any other locale. */
static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Returns whether the text names a value that is not finite: "nan", "-inf", "Infinity". */
static bool names_no_number(const char *begin, const char *end) {
  if (begin < end && (*begin == '-' || *begin == '+'))
    begin++;
  size_t length = (size_t)(end - begin);
  return (length == 3 && (strncasecmp(begin, "nan", 3) == 0 || strncasecmp(begin, "inf", 3) == 0)) ||
         (length == 8 && strncasecmp(begin, "infinity", 8) == 0);
}

/* Reads a decimal or hexadecimal number. strtod_l() rounds it. strtod_l() would also accept white space, "nan" and "inf", so
 * these are refused first. */
static const char *read_simple(const char *begin, const char *end, double *value) {
  const char *digit = begin < end && (*begin == '-' || *begin == '+') ? begin + 1 : begin;
  if (digit < end && *digit == '.')
    digit++;
  if (digit >= end || !is_digit(*digit))
    return names_no_number(begin, end) ? "is not finite; every tap must be" : "is not a number";
  char *stop = NULL;
  *value = strtod_l(begin, &stop, c_locale);
  if (stop != end)
    return "is not a number";
  return isinf(*value) ? "is too large for float32 (3.4e38)" : NULL;
}

const char *gconv_number_read(const char *begin, const char *end, double *value) {
  pthread_once(&c_locale_once, make_c_locale);
  if (c_locale == (locale_t)0)
    return "cannot be read: there is no memory for a locale";
  const char *slash = begin;
  while (slash < end && *slash != '/')
    slash++;
  double number = 0, divisor = 1;
  const char *wrong = read_simple(begin, slash, &number);
  if (!wrong && slash < end)
    wrong = read_simple(slash + 1, end, &divisor);
  if (wrong)
    return slash < end ? "is not a number, nor a fraction such as 1/9" : wrong;
  if (divisor == 0)
    return "divides by 0";
  number /= divisor;
  if (fabs(number) >= FLOAT_OVERFLOW)
    return "is too large for float32 (3.4e38)";
  *value = number;
  return NULL;
}

bool gconv_count_read(const char *begin, const char *end, int32_t *value) {
  int64_t count = 0;
  const char *at = begin;
  for (; at < end && is_digit(*at) && count <= INT32_MAX; at++)
    count = 10 * count + (*at - '0');
  *value = count <= INT32_MAX ? (int32_t)count : 0;
  return at > begin && at == end && count <= INT32_MAX;
}

char *gconv_number_write(float value, char text[GCONV_NUMBER_BYTES]) {
  pthread_once(&c_locale_once, make_c_locale);
  locale_t before = c_locale == (locale_t)0 ? c_locale : uselocale(c_locale);
  snprintf(text, GCONV_NUMBER_BYTES, "%.9g", (double)value);
  if (before != (locale_t)0)
    uselocale(before);
  return text;
}
