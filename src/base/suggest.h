/* SPDX-License-Identifier: MIT */
/* Finds the known name that a user may have meant by an unknown word, or programs that do what the word asks for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The best name found so far for an unknown word. Set it to zeros before first use, except for `any`. */
typedef struct gconv_suggestion {
  char name[64];   /* "" if no name is near */
  size_t distance; /* how many letters of `name` are added, left out, changed, or swapped with the next */
  bool any;        /* the word may be any word, not only a misspelt name. So a name that begins with another letter is not
                      suggested, nor a short name in which one letter is changed */
} gconv_suggestion;

/* Keeps `name` if it is nearer to `word` than the name kept so far, and near enough to be meant. Case does not matter. A
 * word that is the beginning of a name, or has more letters at its end, is near. */
void gconv_suggest(gconv_suggestion *best, const char *word, const char *name);

/* Finds a word of `length` bytes in a list whose words are separated by `between`, ' ' or ','; blanks may follow a
 * separator. Case does not matter. Returns where the word begins in the list, or NULL. `list` may be NULL. */
const char *gconv_find_word(const char *list, char between, const char *word, size_t length);

/* Returns a text if `word` names something that users ask for but gconv does not do: "a median is no convolution ... vips
 * median ... do it". Returns NULL for other words. Case does not matter, nor '_' and '-'. Static storage. */
const char *gconv_elsewhere(const char *word);
