/* SPDX-License-Identifier: MIT */
#include "bank/json_part.h"
#include "base/printable.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 60 /* how many bytes of a text in the file an error shows */ };

/* Writes "layer 3: ", or "" for the whole network. */
static void name_layer(const gconv_json_part *p, char text[32]) {
  text[0] = '\0';
  if (p->layer > 0)
    snprintf(text, 32, "layer %zu: ", p->layer);
}

gconv_status gconv_json_fail(const gconv_json_part *p, gconv_status status, const char *format, ...) {
  char text[512], layer[32];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  gconv_make_printable(text);
  name_layer(p, layer);
  return gconv_fail(status, "%s: %s%s", p->where, layer, text);
}

/* Returns the index of `word` in words[], or -1. */
static int find_word(const char *word, const char *const *words, size_t count) {
  for (size_t i = 0; word && i < count; i++)
    if (words[i] && strcmp(words[i], word) == 0)
      return (int)i;
  return -1;
}

gconv_status gconv_json_take_word(const gconv_json_part *p, const char *key, const char *const *words, size_t count,
                                  int *word) {
  const json_t *value = json_object_get(p->json, key);
  if (!value)
    return GCONV_OK;
  if (!json_is_string(value))
    return gconv_json_fail(p, GCONV_BAD_FILE, "its '%s' is no text", key);
  *word = find_word(json_string_value(value), words, count);
  if (*word >= 0)
    return GCONV_OK;
  return gconv_json_fail(
      p, GCONV_UNSUPPORTED,
      "its %s is '%.*s', which this gconv (%s) does not know: a newer one wrote the file, or it is damaged", key,
      SHOWN_BYTES, json_string_value(value), gconv_version());
}

bool gconv_json_is_number_from(const json_t *value, int32_t least) {
  return json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= INT32_MAX;
}

gconv_status gconv_json_take_numbers(const gconv_json_part *p, const char *key, int32_t least, size_t count,
                                     int32_t *const numbers[]) {
  const json_t *value = json_object_get(p->json, key);
  bool list = json_is_array(value), good = !value || (list ? json_array_size(value) == count : true);
  for (size_t i = 0; value && i < count && good; i++) {
    const json_t *item = list ? json_array_get(value, i) : value;
    good = gconv_json_is_number_from(item, least);
    *numbers[i] = good ? (int32_t)json_integer_value(item) : 0;
  }
  if (good)
    return GCONV_OK;
  return gconv_json_fail(p, GCONV_BAD_FILE, "its '%s' is neither a whole number from %d on nor a list of %zu of them", key,
                         least, count);
}

bool gconv_json_is_finite(const json_t *value) {
  return json_is_number(value) && isfinite((float)json_number_value(value));
}

gconv_status gconv_json_take_number(const gconv_json_part *p, const char *key, double *number) {
  const json_t *value = json_object_get(p->json, key);
  if (value && !gconv_json_is_finite(value))
    return gconv_json_fail(p, GCONV_BAD_FILE, "its '%s' is no finite number", key);
  if (value)
    *number = json_number_value(value);
  return GCONV_OK;
}

gconv_status gconv_json_take_text(const gconv_json_part *p, const char *key, char **text) {
  const json_t *value = json_object_get(p->json, key);
  if (value && !json_is_null(value) && !json_is_string(value))
    return gconv_json_fail(p, GCONV_UNSUPPORTED, "its '%s' is not text, and this gconv (%s) reads only text", key,
                           gconv_version());
  if (json_is_string(value) && !(*text = strdup(json_string_value(value))))
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  return GCONV_OK;
}

/* Finds the list of a key; *list is NULL if the key is absent. Allocates *items, with `size` bytes for each item of the
 * list. */
static gconv_status find_list(const gconv_json_part *p, const char *key, size_t count, size_t size, const json_t **list,
                              void **items) {
  const json_t *value = json_object_get(p->json, key);
  const size_t length = json_array_size(value);
  *list = NULL;
  if (!value || json_is_null(value))
    return GCONV_OK;
  if (length == 0 || length > INT32_MAX || (count > 0 && length != count))
    return count == 0 ? gconv_json_fail(p, GCONV_BAD_FILE, "its '%s' is not a list of at least one item", key)
                      : gconv_json_fail(p, GCONV_BAD_FILE, "its '%s' is not a list of %zu items", key, count);
  *items = calloc(length, size);
  *list = value;
  return *items ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
}

gconv_status gconv_json_take_texts(const gconv_json_part *p, const char *key, size_t count, char ***texts, size_t *found) {
  const json_t *list;
  void *items = NULL;
  GCONV_TRY(find_list(p, key, count, sizeof **texts, &list, &items));
  *texts = items ? items : *texts;
  for (*found = 0; *found < json_array_size(list); ++*found) {
    const char *text = json_string_value(json_array_get(list, *found));
    if (!text)
      return gconv_json_fail(p, GCONV_BAD_FILE, "number %zu of its '%s' is no text", *found + 1, key);
    if (!((*texts)[*found] = strdup(text)))
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a network", p->where);
  }
  return GCONV_OK;
}

gconv_status gconv_json_take_list(const gconv_json_part *p, const char *key, size_t count, bool single, void *numbers,
                                  size_t *found) {
  const json_t *list;
  void *items = NULL;
  GCONV_TRY(find_list(p, key, count, single ? sizeof(float) : sizeof(double), &list, &items));
  memcpy(numbers, &items, sizeof items);
  *found = json_array_size(list);
  for (size_t i = 0; i < *found; i++) {
    const double number = json_number_value(json_array_get(list, i));
    if (!json_is_number(json_array_get(list, i)) || (single && !isfinite((float)number)))
      return gconv_json_fail(p, GCONV_BAD_FILE, "number %zu of its '%s' is no finite number", i + 1, key);
    if (single)
      ((float *)items)[i] = (float)number;
    else
      ((double *)items)[i] = number;
  }
  return GCONV_OK;
}

void gconv_json_drop_keys(const gconv_json_part *p, const char *const *keys) {
  const char *key, *first = NULL;
  size_t unknown = 0;
  json_t *value;
  char layer[32];
  for (; *keys; keys++)
    json_object_del(p->json, *keys);
  json_object_foreach(p->json, key, value) {
    if (p->layer == 0 && (json_is_object(value) || json_is_array(value)) &&
        (strcmp(key, "layers") == 0 || strcmp(key, "input") == 0))
      continue;
    first = first ? first : key;
    unknown++;
  }
  if (unknown == 0)
    return;
  char *name = gconv_printable_copy(first, SHOWN_BYTES);
  name_layer(p, layer);
  gconv_warn("%s: %s%zu key%s unknown and change%s nothing: '%s'%s", p->where, layer, unknown,
             unknown == 1 ? " is" : "s are", unknown == 1 ? "s" : "", name ? name : "", unknown == 1 ? "" : " ...");
  free(name);
}
