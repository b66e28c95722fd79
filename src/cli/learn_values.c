/* SPDX-License-Identifier: MIT */
/* The kinds of values that options of learning have. */
#include "cli/options.h"

#include <string.h>

static gconv_status parse_share(const gconv_given *given) {
  char number[32];
  double *share = given->field;
  size_t length = strlen(given->value), percent = length > 0 && given->value[length - 1] == '%';
  bool good = length - percent < sizeof number;
  if (good) {
    memcpy(number, given->value, length - percent);
    number[length - percent] = '\0';
    good = gconv_parse_number(number, share);
    *share /= percent ? 100 : 1;
  }
  if (!good || !(*share > 0 && *share < 1))
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
