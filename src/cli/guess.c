/* SPDX-License-Identifier: MIT */
#include "cli/guess.h"

#include <string.h>

enum { LONGEST = 32 }; /* letters; longer words are never guessed */

static int least(int a, int b) {
  return a < b ? a : b;
}

/* Optimal string alignment distance: Levenshtein's, with swapped neighbours as one mistake. */
static int distance(const char *a, const char *b) {
  int rows[LONGEST + 1][LONGEST + 1];
  int length_a = (int)strlen(a), length_b = (int)strlen(b);
  for (int i = 0; i <= length_a; i++)
    rows[i][0] = i;
  for (int j = 0; j <= length_b; j++)
    rows[0][j] = j;
  for (int i = 1; i <= length_a; i++)
    for (int j = 1; j <= length_b; j++) {
      int best = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      best = least(best, least(rows[i - 1][j], rows[i][j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = least(best, rows[i - 2][j - 2] + 1);
      rows[i][j] = best;
    }
  return rows[length_a][length_b];
}

gconv_guess gconv_guess_for(const char *word) {
  /* A third of the letters may be wrong, and at least one. */
  return (gconv_guess){.word = word, .distance = (int)strlen(word) / 3 + 2};
}

void gconv_guess_offer(gconv_guess *guess, const char *name) {
  if (strlen(guess->word) > LONGEST || strlen(name) > LONGEST)
    return;
  int found = distance(guess->word, name);
  size_t word = strlen(guess->word), length = strlen(name), common = word < length ? word : length;
  if (common >= 3 && strncmp(guess->word, name, common) == 0) /* cut short, or with more at its end */
    found = least(found, 1);
  if (found >= guess->distance)
    return;
  guess->distance = found;
  guess->best = name;
}
