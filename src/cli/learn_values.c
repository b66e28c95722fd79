/* SPDX-License-Identifier: MIT */
/* The kinds of values that options of learning have. */
#include "cli/options.h"
#include "gconv_learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gconv_status gconv_take_batch(const gconv_given *given) {
  uint64_t count = SIZE_MAX;
  if (strcmp(given->value, "full") != 0 && !gconv_parse_count(given->value, &count))
    return gconv_refuse(given->message, "this takes a number of cases from 1 on, or full");
  *(size_t *)given->field = (size_t)count;
  return GCONV_OK;
}

gconv_status gconv_take_elimination(const gconv_given *given) {
  gconv_training_options *training = given->field;
  const char *colon = strchr(given->value, ':');
  char *lambda = strndup(given->value, strcspn(given->value, ":"));
  bool good = lambda && gconv_parse_float(lambda, &training->elimination) &&
              (!colon || (gconv_parse_float(colon + 1, &training->elimination_scale) && training->elimination_scale > 0));
  free(lambda);
  return good ? GCONV_OK
              : gconv_refuse(given->message, "this takes lambda, and behind a colon the scale of the weights: 1e-4:1");
}

gconv_status gconv_take_separator(const gconv_given *given) {
  bool tab = strcmp(given->value, "tab") == 0 || strcmp(given->value, "\\t") == 0;
  char letter = tab ? '\t' : given->value[0];
  if (!letter || (!tab && given->value[1]) || strchr("\"\n\r.+-0123456789", letter))
    return gconv_refuse(given->message, "this takes one character, such as ';', or tab");
  *(char *)given->field = letter;
  return GCONV_OK;
}

gconv_status gconv_take_size(const gconv_given *given) {
  char text[32];
  int32_t *size = given->field;
  size_t length = strlen(given->value);
  int count = 0;
  if (length < sizeof text && !strchr(given->value, ',')) {
    memcpy(text, given->value, length + 1);
    for (char *at = text; *at; at++)
      *at = *at == 'x' ? ',' : *at;
    count = gconv_parse_integers(text, 2, 1, given->option->most, size);
  }
  if (count == 0)
    return gconv_refuse(given->message, "this takes a size from 1 to %d, such as 7, or ROWSxCOLUMNS, such as 5x9",
                        given->option->most);
  size[1] = count == 1 ? size[0] : size[1];
  return GCONV_OK;
}

gconv_status gconv_take_tube(const gconv_given *given) {
  double *number = given->field;
  if (!gconv_parse_number(given->value, number) || !(*number >= 0))
    return gconv_refuse(given->message, "this takes a number from 0 on");
  if (*number == 0)
    *number = -1;
  return GCONV_OK;
}

gconv_status gconv_take_megabytes(const gconv_given *given) {
  const double most = 1e9; /* which no machine has */
  double number;
  if (!gconv_parse_number(given->value, &number) || !(number > 0 && number <= most))
    return gconv_refuse(given->message, "this takes a number of megabytes above 0, such as 1000");
  *(uint64_t *)given->field = (uint64_t)fmax(1, number * 1e6);
  return GCONV_OK;
}

gconv_status gconv_take_powers(const gconv_given *given) {
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
