/* SPDX-License-Identifier: MIT */
#include "names/texts.h"
#include "base/fields.h"
#include "base/memory.h"

#include <string.h>

/* ---- Messages ------------------------------------------------------------------------------------------------------ */

gconv_status gconv_complain(gconv_message *message, gconv_status status, const char *format, ...) {
  char text[sizeof message->text];
  if (!message || !format)
    return status;
  GCONV_FORMAT(text, sizeof text, format);
  gconv_name_fields(text);
  memcpy(message->text, text, sizeof text);
  return status;
}

gconv_status gconv_tell(gconv_status status, gconv_message *message) {
  return status == GCONV_OK ? GCONV_OK : gconv_complain(message, status, "%s", gconv_last_error());
}

/* ---- Lists --------------------------------------------------------------------------------------------------------- */

bool gconv_texts_add(gconv_texts *texts, char *text) {
  char **items = texts && text ? gconv_grown(texts->items, texts->count, sizeof *items) : NULL;
  if (!items) {
    free(text);
    return false;
  }
  texts->items = items;
  items[texts->count++] = text;
  return true;
}

gconv_status gconv_texts_append(gconv_texts *texts, char *text) {
  return gconv_texts_add(texts, text) ? GCONV_OK : gconv_no_memory();
}

void gconv_texts_free(gconv_texts *texts) {
  if (!texts)
    return;
  for (size_t i = 0; texts->items && i < texts->count; i++)
    free(texts->items[i]);
  free(texts->items);
  *texts = (gconv_texts){0};
}

int gconv_texts_compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void gconv_texts_sort(gconv_texts *texts) {
  if (texts->count > 0)
    qsort(texts->items, texts->count, sizeof *texts->items, gconv_texts_compare);
}

static int compare_keys(const void *a, const void *b) {
  const gconv_key *left = a, *right = b;
  int order = strcmp(left->text, right->text);
  return order ? order : (left->number > right->number) - (left->number < right->number);
}

void gconv_keys_sort(gconv_key *keys, size_t count) {
  qsort(keys, count, sizeof *keys, compare_keys);
}

void gconv_keys_free(gconv_key *keys, size_t count) {
  for (size_t i = 0; keys && i < count; i++)
    free(keys[i].text);
  free(keys);
}

/* ---- Checks -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_check_texts(const gconv_texts *texts, const char *name) {
  size_t i = 0;
  while (texts->items && i < texts->count && texts->items[i])
    i++;
  return i == texts->count ? GCONV_OK : gconv_fail(GCONV_BAD_ARGUMENT, "%s: text %zu is NULL", name, i + 1);
}

gconv_status gconv_check_inputs(const gconv_inputs *inputs) {
  for (size_t i = 0; i < inputs->count; i++)
    if (!inputs->items || !inputs->items[i].path || !inputs->items[i].file || !inputs->items[i].relative)
      return gconv_fail(GCONV_BAD_ARGUMENT, "input %zu lacks its path, file or relative name", i + 1);
  GCONV_TRY(gconv_check_texts(&inputs->folders, "the folders of the inputs"));
  GCONV_TRY(gconv_check_texts(&inputs->missed, "the errors of the inputs"));
  return gconv_check_texts(&inputs->patterns, "the patterns of the inputs");
}

gconv_status gconv_check_outputs(const gconv_outputs *outputs, const gconv_inputs *inputs) {
  GCONV_TRY(gconv_check_texts(&outputs->paths, "the outputs"));
  for (size_t i = 0; inputs && i < inputs->count; i++)
    if (!outputs->first || outputs->first[i] > outputs->first[i + 1] || outputs->first[i + 1] > outputs->paths.count)
      return gconv_fail(GCONV_BAD_ARGUMENT, "outputs->first does not say which outputs input %zu has", i + 1);
  return GCONV_OK;
}
