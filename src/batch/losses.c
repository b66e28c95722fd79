/* SPDX-License-Identifier: MIT */
/* Warnings of losses: clamped responses, results of one colour, and properties of inputs that results cannot show. */
#include "base/status.h"
#include "batch/item.h"

#include <math.h>
#include <stdio.h>

/* Smaller shares of clamped responses are usual at sharp edges, and cause no warning. */
static const double LEAST_SHARE = 0.01;

/* Warns of a result that is black or white all over, although its responses differ. */
static void warn_of_one_colour(const char *path, const char *colour, const gconv_losses *l) {
  gconv_warn_once(
      "one colour",
      "%s: the result is %s all over: its responses go from about %.3g to %.3g, where 0 is black and 1 is white: "
      "--range minmax shows them, --depth float keeps them",
      path, colour, l->low, l->high);
}

/* Returns whether the filter finds edges: even areas become black. */
static bool finds_edges(const gconv_losses *l) {
  return fabs(l->gain) < 0.01;
}

/* Warns of responses below black. The advice depends on the filter: responses around 0 show with 0 in the middle of the
 * range, but a sharpened picture, where some places are darker than black, would become grey by that. */
static void warn_of_black(const char *path, const gconv_losses *l) {
  const char *advice = l->is_signed     ? "a smaller --scale or --range minmax shows them"
                       : finds_edges(l) ? "--range signed or --range abs shows them"
                                        : "--range minmax shows them, with less contrast";
  gconv_warn_once("clamped to black",
                  "%s: about %.0f%% of the responses are below 0 and became black: %s, --depth float keeps "
                  "them",
                  path, 100 * l->below / l->places, advice);
}

/* Warns of responses above white. The advice depends on the filter: taps with a sum above 1 make the whole image brighter.
 */
static void warn_of_white(const char *path, const gconv_losses *l) {
  int digits = l->high < 2 ? 2 : l->high < 10 ? 1 : 0; /* 1.04, 2.9, 154 */
  char advice[96] = "a smaller --scale or --range minmax shows them";
  if (l->gain > 1.01)
    snprintf(advice, sizeof advice, "even areas become %.4g times as bright, which --scale %.4g undoes", l->gain,
             l->scale / l->gain);
  else if (!finds_edges(l))
    snprintf(advice, sizeof advice, "--range minmax shows them, with less contrast");
  gconv_warn_once(
      "clamped to white",
      "%s: about %.0f%% of the responses are above white, up to about %.*f times as bright, and became white: %s, "
      "--depth float keeps them",
      path, 100 * l->above / l->places, digits, l->high, advice);
}

void gconv_warn_of_look(const gconv_batch *batch, const char *path, const gconv_look *look) {
  gconv_look_warn_of_numbers(look, path);
  if (look->bleeds && !batch->alpha_meant)
    gconv_warn_once(
        "colours of transparent pixels",
        "%s: the colours of transparent pixels go into their neighbours: --alpha premultiply keeps them out (--alpha "
        "keep, if that is meant)",
        path);
}

void gconv_warn_of_losses(const gconv_batch *batch, const char *path, const gconv_losses *l) {
  if (!batch->watch || l->places == 0)
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
