/* SPDX-License-Identifier: MIT */
/* Reading values of the JSON of a network. If a key is absent, a function leaves its result unchanged. A failure names the
 * file and the layer. */
#pragma once

#include "base/status.h"

#include <jansson.h>

/* The object that is read: of the whole network, or of a layer. */
typedef struct gconv_json_part {
  const char *where; /* the file */
  size_t layer;      /* from 1 on; 0: the whole network */
  json_t *json;      /* an object */
} gconv_json_part;

gconv_status gconv_json_fail(const gconv_json_part *part, gconv_status status, const char *format, ...) GCONV_PRINTF(3, 4);

/* Sets *word to the index of the text of `key` in words[]. A NULL in words[] matches no text. */
gconv_status gconv_json_take_word(const gconv_json_part *part, const char *key, const char *const *words, size_t count,
                                  int *word);

/* Sets `count` whole numbers, each at least `least`. The file has a list of `count` numbers, or one number for all. */
gconv_status gconv_json_take_numbers(const gconv_json_part *part, const char *key, int32_t least, size_t count,
                                     int32_t *const numbers[]);
/* True if the value is a whole number from `least` to INT32_MAX. */
bool gconv_json_is_number_from(const json_t *value, int32_t least);

/* True if the value is a number that is finite in float32. */
bool gconv_json_is_finite(const json_t *value);
/* Sets a number, which must be finite in float32. */
gconv_status gconv_json_take_number(const gconv_json_part *part, const char *key, double *number);

/* Copies a text. The caller frees it. */
gconv_status gconv_json_take_text(const gconv_json_part *part, const char *key, char **text);

/* Reads a list of `count` texts, or of one or more if `count` is 0. The caller frees all. *found: how many were read. */
gconv_status gconv_json_take_texts(const gconv_json_part *part, const char *key, size_t count, char ***texts, size_t *found);
/* Reads a list of `count` finite numbers, or of one or more if `count` is 0. The caller frees it. The numbers are floats if
 * `single`, else doubles. *found: the length of the list. */
gconv_status gconv_json_take_list(const gconv_json_part *part, const char *key, size_t count, bool single, void *numbers,
                                  size_t *found);

/* A list of keys, which ends with NULL. */
#define GCONV_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Removes known keys, and warns of the keys that stay. In the object of the network, "layers" and "input" stay without a
 * warning: the calls for those objects have warned of their keys. */
void gconv_json_drop_keys(const gconv_json_part *part, const char *const *keys);

/* Sets a value. False if it cannot be set, or if it is NULL for lack of memory. */
static inline bool gconv_json_put(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}
