/* SPDX-License-Identifier: MIT */
/* Which known name an unknown one may have meant. */
#ifndef GCONV_FILTER_SUGGEST_H
#define GCONV_FILTER_SUGGEST_H

#include <stddef.h>

/* The best of the names that were offered for a word that is not known. */
typedef struct gconv_suggestion {
  char name[64]; /* "" if none is near */
  size_t distance;
} gconv_suggestion;

/* Keeps `name`, if it is nearer to `word` than what is kept so far, and near enough that it may have been meant: by letters
 * added, left out, or changed, case aside. Zero-initialise *best. */
void gconv_suggest(gconv_suggestion *best, const char *word, const char *name);

#endif
