/* SPDX-License-Identifier: MIT */
/* Reading values of the JSON of a network. Each function leaves what it sets as it is if the key is not there. A failure
 * names the file and the layer. */
#pragma once

#include "base/status.h"

#include <jansson.h>

/* The part that is read: the whole, or a layer. */
typedef struct gconv_json_part {
  const char *where; /* the file */
  size_t layer;      /* from 1 on; 0: the whole */
  json_t *json;      /* an object */
} gconv_json_part;

gconv_status gconv_json_fail(const gconv_json_part *part, gconv_status status, const char *format, ...) GCONV_PRINTF(3, 4);

/* Sets *word to the number of the word that `key` has. A word that is NULL is none. */
gconv_status gconv_json_take_word(const gconv_json_part *part, const char *key, const char *const *words, size_t count,
                                  int *word);

/* Sets `count` numbers from `least` on: a list of as many, or one number for all. */
gconv_status gconv_json_take_numbers(const gconv_json_part *part, const char *key, int32_t least, size_t count,
                                     int32_t *const numbers[]);
bool gconv_json_is_number_from(const json_t *value, int32_t least);

/* Sets a number that is finite as float32. */
bool gconv_json_is_finite(const json_t *value);
gconv_status gconv_json_take_number(const gconv_json_part *part, const char *key, double *number);

/* Copies a text, for free(). */
gconv_status gconv_json_take_text(const gconv_json_part *part, const char *key, char **text);

/* Reads a list of `count` texts or finite numbers, for free(); if count is 0, a list of any number from 1 on. *found: how
 * many there are; of texts, how many were read. Numbers are floats if `single`, else doubles. */
gconv_status gconv_json_take_texts(const gconv_json_part *part, const char *key, size_t count, char ***texts, size_t *found);
gconv_status gconv_json_take_list(const gconv_json_part *part, const char *key, size_t count, bool single, void *numbers,
                                  size_t *found);

/* A list of keys, which ends with NULL. */
#define GCONV_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Takes known keys out, and tells of those that stay. Lists of layers and the input are told of by themselves. */
void gconv_json_drop_keys(const gconv_json_part *part, const char *const *keys);

/* Sets a value, which may be NULL by lack of memory; false if it cannot be set. */
static inline bool gconv_json_put(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}
