/* SPDX-License-Identifier: MIT */
/* Finding the known name that may have been meant by an unknown one. */
#ifndef GCONV_BASE_SUGGEST_H
#define GCONV_BASE_SUGGEST_H

#include <stddef.h>

/* The best of the names that were offered for a word that is not known. Zero-initialise before first use. */
typedef struct gconv_suggestion {
  char name[64];   /* "" if none is near */
  size_t distance; /* of `name`, in letters added, left out, changed, or swapped with the next */
} gconv_suggestion;

/* Keeps `name`, if it is nearer to `word` than what is kept so far, and so near that it may have been meant. Case does not
 * matter; a word that was cut short, or has more at its end, is near. */
void gconv_suggest(gconv_suggestion *best, const char *word, const char *name);

#endif
