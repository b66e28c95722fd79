/* SPDX-License-Identifier: MIT */
/* Which option or command a mistyped word may have meant. */
#ifndef GCONV_CLI_GUESS_H
#define GCONV_CLI_GUESS_H

/* Looks for the name most like a mistyped `word`: offer each name in turn, then ask. */
typedef struct gconv_guess {
  const char *word;
  const char *best; /* the name most like it so far, or NULL if none is like it */
  int distance;     /* of the best, in letters added, dropped, changed or swapped */
} gconv_guess;

gconv_guess gconv_guess_for(const char *word);
void gconv_guess_offer(gconv_guess *guess, const char *name);

#endif
