/* SPDX-License-Identifier: MIT */
/* The kinds of values that options of learning have. */
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
  bool good = lambda && gconv_parse_float(lambda, &training->elimination) &&
              (!colon || (gconv_parse_float(colon + 1, &training->elimination_scale) && training->elimination_scale > 0));
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

bool gconv_parse_share(const char *text, double *share) {
  size_t length = strlen(text), percent = length > 0 && text[length - 1] == '%';
  char *number = strndup(text, length - percent);
  bool good = number && gconv_parse_number(number, share);
  if (good && percent)
    *share /= 100;
  free(number);
  return good;
}

static gconv_status parse_share(const gconv_given *given) {
  double *share = given->field;
  if (!gconv_parse_share(given->value, share) || !(*share > 0 && *share < 1))
    return gconv_refuse(given->message, "this takes a share above 0 and below 100%%, such as 20%% or 0.2");
  return GCONV_OK;
}

const gconv_kind gconv_value_share = {parse_share, NULL};

static gconv_status parse_size(const gconv_given *given) {
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

const gconv_kind gconv_value_size = {parse_size, NULL};

static gconv_status parse_ridge(const gconv_given *given) {
  double *ridge = given->field;
  if (!gconv_parse_number(given->value, ridge) || *ridge < 0)
    return gconv_refuse(given->message, "this takes a number from 0 on, such as 1e-6");
  return GCONV_OK;
}

const gconv_kind gconv_value_ridge = {parse_ridge, NULL};
