/* SPDX-License-Identifier: MIT */
#include "filter/suggest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 63 };

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Levenshtein's distance, a row at a time; both are at most LONGEST long. */
static size_t distance(const char *a, const char *b) {
  size_t row[LONGEST + 1], length = strlen(b);
  for (size_t j = 0; j <= length; j++)
    row[j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= length; j++) {
      size_t changed = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      size_t shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      diagonal = row[j];
      row[j] = changed < shorter ? changed : shorter;
    }
  }
  return row[length];
}

void gconv_suggest(gconv_suggestion *best, const char *word, const char *name) {
  size_t length = strlen(word);
  if (length == 0 || length > LONGEST || strlen(name) > LONGEST)
    return;
  size_t d = distance(word, name), near = 1 + length / 4;
  if (strncmp(name, word, length) == 0) /* "sobel" for "sobel_x" */
    d = d < near ? d : near;
  bool first = best->name[0] == '\0', longer = strlen(name) > strlen(best->name);
  if (d > near || (!first && (d > best->distance || (d == best->distance && !longer)))) /* "laplacian_4" for "laplacian4" */
    return;
  snprintf(best->name, sizeof best->name, "%s", name);
  best->distance = d;
}
