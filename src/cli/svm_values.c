/* SPDX-License-Identifier: MIT */
/* The kinds of values that options of svm have. */
#include "cli/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gconv_status parse_positive(const gconv_given *given) {
  double *number = given->field;
  if (!gconv_parse_number(given->value, number) || !(*number > 0))
    return gconv_refuse(given->message, "this takes a number above 0");
  return GCONV_OK;
}

const gconv_kind gconv_value_positive = {parse_positive, NULL};

static gconv_status parse_tube(const gconv_given *given) {
  double *number = given->field;
  if (!gconv_parse_number(given->value, number) || !(*number >= 0))
    return gconv_refuse(given->message, "this takes a number from 0 on");
  if (*number == 0)
    *number = -1;
  return GCONV_OK;
}

const gconv_kind gconv_value_tube = {parse_tube, NULL};

static gconv_status parse_megabytes(const gconv_given *given) {
  const double most = 1e9; /* which no machine has */
  double number;
  if (!gconv_parse_number(given->value, &number) || !(number > 0 && number <= most))
    return gconv_refuse(given->message, "this takes a number of megabytes above 0, such as 1000");
  *(uint64_t *)given->field = (uint64_t)fmax(1, number * 1e6);
  return GCONV_OK;
}

const gconv_kind gconv_value_megabytes = {parse_megabytes, NULL};

static gconv_status parse_powers(const gconv_given *given) {
  enum { MOST_POWERS = 1000 };
  gconv_powers *powers = given->field;
  double *fields[] = {&powers->first, &powers->last, &powers->step};
  const char *at = given->value;
  bool good = true;
  for (int i = 0; i < 3 && good; i++) {
    char *number = strndup(at, strcspn(at, ":"));
    good = number && gconv_parse_number(number, fields[i]) && fabs(*fields[i]) <= MOST_POWERS;
    at += strcspn(at, ":");
    good = good && (i == 2 ? *at == '\0' : *at++ == ':');
    free(number);
  }
  good = good && powers->step != 0 && (powers->last - powers->first) / powers->step >= 0 &&
         (powers->last - powers->first) / powers->step < MOST_POWERS;
  return good ? GCONV_OK
              : gconv_refuse(given->message, "this takes exponents of 2: the first, the last and the step, such as -5:15:2");
}

const gconv_kind gconv_value_powers = {parse_powers, NULL};
