/* SPDX-License-Identifier: MIT */
/* Reports as text or as JSON: the code of a report names each figure once, for both. */
#pragma once

#include "base/json.h"
#include "base/printable.h"

#include <math.h>

/* Where a report goes: as text to `out`, or as JSON. */
typedef struct gconv_telling {
  FILE *out;
  json_t *json; /* the object that gets the figures; NULL: text is wanted */
} gconv_telling;

/* Report a figure: as `key` of the JSON, or as text, in a format of gconv_print(). gconv_tell() is for integers and texts,
 * gconv_tell_number() for a double, gconv_tell_share() for a share, whose text is in %. A double that is NaN is null in
 * JSON, and left out of the text. */
#define gconv_tell(telling, key, format, value) GCONV_TELL_IF(true, telling, key, format, value, value)
#define gconv_tell_number(telling, key, format, value) GCONV_TELL_IF(!isnan(value), telling, key, format, value, value)
#define gconv_tell_share(telling, key, format, value)                                                                       \
  GCONV_TELL_IF(!isnan(value), telling, key, format, value, 100 * (value))
#define GCONV_TELL_IF(known, telling, key, format, value, shown)                                                            \
  do {                                                                                                                      \
    if ((telling)->json)                                                                                                    \
      gconv_json_put((telling)->json, key, value);                                                                          \
    else if (known)                                                                                                         \
      gconv_print((telling)->out, format, shown);                                                                           \
  } while (0)

/* Report a figure only if the report is JSON, and only if it is text. */
#define gconv_tell_json(telling, key, value)                                                                                \
  do {                                                                                                                      \
    if ((telling)->json)                                                                                                    \
      gconv_json_put((telling)->json, key, value);                                                                          \
  } while (0)
#define gconv_tell_text(telling, ...)                                                                                       \
  do {                                                                                                                      \
    if (!(telling)->json)                                                                                                   \
      gconv_print((telling)->out, __VA_ARGS__);                                                                             \
  } while (0)

/* Prints the JSON of a report, with flags of jansson, and frees it; NULL: the report was text. If memory is short, prints an
 * error and returns false. */
bool gconv_tell_end(FILE *out, json_t *json, size_t flags);
