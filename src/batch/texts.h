/* SPDX-License-Identifier: MIT */
/* A growing list of strings. */
#ifndef GCONV_BATCH_TEXTS_H
#define GCONV_BATCH_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise before first use. */
typedef struct gconv_texts {
  char **items; /* owned, and so is each of them */
  size_t count;
} gconv_texts;

/* Appends `text`, from malloc(), and takes it over in any case. False without memory, or if `text` is NULL: so that
 * gconv_texts_add(list, strdup(x)) needs one check. */
bool gconv_texts_add(gconv_texts *texts, char *text);

/* Frees all and zeroes the list. */
void gconv_texts_free(gconv_texts *texts);

/* `items`, an array of `count` elements of `size` bytes, with room for one more: it is moved to twice the room whenever
 * `count` is 0 or a power of two, so no capacity needs to be kept. NULL without memory, and `items` is as it was. */
void *gconv_grown(void *items, size_t count, size_t size);

#endif
