/* SPDX-License-Identifier: MIT */
#include "batch/texts.h"
#include "base/memory.h"

#include <stdlib.h>

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

void gconv_texts_free(gconv_texts *texts) {
  if (!texts)
    return;
  for (size_t i = 0; texts->items && i < texts->count; i++)
    free(texts->items[i]);
  free(texts->items);
  *texts = (gconv_texts){0};
}
