/* SPDX-License-Identifier: MIT */
/* Warnings of what results cannot show: responses below black and above white, and images of one colour. */
#include "base/status.h"
#include "batch/run.h"

#include <stdio.h>

/* Shares below this are the rule at sharp edges, and not worth a word. */
static const double LEAST_SHARE = 0.01;

/* Warns of a result that is black or white all over though its responses differ. */
static void warn_of_one_colour(const char *path, const char *colour, const gconv_losses *l) {
  gconv_warn_once(
      "one colour",
      "%s: the result is %s all over: its responses go from about %.3g to %.3g, where 0 is black and 1 is white: "
      "--range minmax shows them, --depth float keeps them",
      path, colour, l->low, l->high);
}

/* Responses of which many are negative want another zero; a few are the overshoots of sharpening. */
static void warn_of_black(const char *path, const gconv_losses *l) {
  const double many = 0.05;
  double share = l->below / l->places;
  const char *advice = share > many && !l->is_signed ? "--range signed or --range abs shows them"
                                                     : "a smaller --scale or --range minmax shows them";
  gconv_warn_once("clamped to black",
                  "%s: about %.0f%% of the responses are below 0 and became black: %s, --depth float keeps "
                  "them",
                  path, 100 * share, advice);
}

static void warn_of_white(const char *path, const gconv_losses *l) {
  int digits = l->high < 2 ? 2 : l->high < 10 ? 1 : 0; /* 1.04, 2.9, 154 */
  gconv_warn_once("clamped to white",
                  "%s: about %.0f%% of the responses are above white, up to about %.*f times as bright, and became white: a "
                  "smaller --scale or --range minmax shows them, --depth float keeps them",
                  path, 100 * l->above / l->places, digits, l->high);
}

void gconv_warn_of_losses(const gconv_run *run, const char *path, const gconv_losses *l) {
  if (!run->batch->watch || l->places == 0)
    return;
  if (gconv_losses_are_of_one_colour(l)) {
    warn_of_one_colour(path, l->black == l->places ? "black" : "white", l);
    return;
  }
  if (l->below > LEAST_SHARE * l->places)
    warn_of_black(path, l);
  if (l->above > LEAST_SHARE * l->places)
    warn_of_white(path, l);
}
