/* SPDX-License-Identifier: MIT */
#include "base/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 63, SHORTEST_BEGINNING = 3 };

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

static bool same(char a, char b) {
  return strncasecmp(&a, &b, 1) == 0;
}

/* Returns Levenshtein's distance, where two swapped neighbours are one mistake (optimal string alignment). Both words have
 * at most LONGEST letters. */
static size_t distance(const char *a, const char *b) {
  uint8_t rows[LONGEST + 1][LONGEST + 1]; /* small, as it is on the stack */
  size_t length_a = strlen(a), length_b = strlen(b);
  for (size_t i = 0; i <= length_a; i++)
    rows[i][0] = (uint8_t)i;
  for (size_t j = 0; j <= length_b; j++)
    rows[0][j] = (uint8_t)j;
  for (size_t i = 1; i <= length_a; i++)
    for (size_t j = 1; j <= length_b; j++) {
      size_t best = rows[i - 1][j - 1] + !same(a[i - 1], b[j - 1]);
      best = least(best, least(rows[i - 1][j], rows[i][j - 1]) + 1);
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        best = least(best, rows[i - 2][j - 2] + 1);
      rows[i][j] = (uint8_t)best;
    }
  return rows[length_a][length_b];
}

void gconv_suggest(gconv_suggestion *best, const char *word, const char *name) {
  size_t length = strlen(word), common = least(length, strlen(name));
  if (length == 0 || length > LONGEST || strlen(name) > LONGEST)
    return;
  size_t found = distance(word, name), near = length < 4 ? 1 : 1 + length / 4;
  if (common >= SHORTEST_BEGINNING && strncasecmp(word, name, common) == 0) /* "mag" for "magnitude" */
    found = least(found, 1);
  bool first = best->name[0] == '\0', longer = strlen(name) > strlen(best->name); /* "laplacian_4" for "laplacian4" */
  if (found > near || (!first && (found > best->distance || (found == best->distance && !longer))))
    return;
  snprintf(best->name, sizeof best->name, "%s", name);
  best->distance = found;
}
