/* SPDX-License-Identifier: MIT */
/* The kinds of values that single options of train and classify have. */
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

static gconv_status parse_windows(const gconv_given *given) {
  gconv_dataset_options *data = given->field;
  const char *colon = strchr(given->value, ':');
  char *window = strndup(given->value, strcspn(given->value, ":"));
  int64_t samples = 0, hop = 0;
  bool good = window && gconv_parse_integer(window, 1, 1 << 24, &samples) &&
              (!colon || gconv_parse_integer(colon + 1, 1, 1 << 24, &hop));
  free(window);
  data->window = (int32_t)samples;
  data->hop = (int32_t)hop;
  return good ? GCONV_OK
              : gconv_refuse(given->message, "this takes numbers of samples: a window, and behind a colon the "
                                             "distance from one to the next: 200:50");
}

const gconv_kind gconv_value_windows = {parse_windows, NULL};

static gconv_status parse_batch(const gconv_given *given) {
  uint64_t count = SIZE_MAX;
  if (strcmp(given->value, "full") != 0 && !gconv_parse_count(given->value, &count))
    return gconv_refuse(given->message, "this takes a number of cases from 1 on, or full");
  *(size_t *)given->field = (size_t)count;
  return GCONV_OK;
}

const gconv_kind gconv_value_batch = {parse_batch, NULL};

static gconv_status parse_elimination(const gconv_given *given) {
  gconv_training_options *training = given->field;
  const char *colon = strchr(given->value, ':');
  char *lambda = strndup(given->value, strcspn(given->value, ":"));
  bool good = lambda && gconv_parse_number(lambda, &training->elimination) &&
              (!colon || (gconv_parse_number(colon + 1, &training->elimination_scale) && training->elimination_scale > 0));
  free(lambda);
  return good ? GCONV_OK
              : gconv_refuse(given->message, "this takes lambda, and behind a colon the scale of the weights: 1e-4:1");
}

const gconv_kind gconv_value_elimination = {parse_elimination, NULL};

static gconv_status parse_separator(const gconv_given *given) {
  bool tab = strcmp(given->value, "tab") == 0 || strcmp(given->value, "\\t") == 0;
  char letter = tab ? '\t' : given->value[0];
  if (!letter || (!tab && given->value[1]) || strchr("\"\n\r.+-0123456789", letter))
    return gconv_refuse(given->message, "this takes one character, such as ';', or tab");
  *(char *)given->field = letter;
  return GCONV_OK;
}

const gconv_kind gconv_value_separator = {parse_separator, NULL};
