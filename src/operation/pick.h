/* SPDX-License-Identifier: MIT */
/* Choosing one of the algorithms of a table, whatever they solve. */
#ifndef GCONV_OPERATION_PICK_H
#define GCONV_OPERATION_PICK_H

#include "base/status.h"

#include <stdio.h>

/* A row of the table, as far as choosing goes. */
typedef struct gconv_candidate {
  const gconv_algorithm_info *info;
  const char *(*available)(void); /* as in gconv_algorithm */
  bool library, classic;          /* as in gconv_layer_algorithm; as in gconv_algorithm */
  const char *obstacle;           /* why it cannot solve the problem; NULL: it can */
  double price;                   /* milliseconds */
  double bound, accuracy; /* of its error, and what is half a level of the result, in one unit; accuracy 0: any bound */
  char told[160];         /* of the price: "estimated at 3 ms" */
} gconv_candidate;

enum { GCONV_MOST_CANDIDATES = 48 };

/* Whether devices called "cpu" or "cuda:1" have an algorithm of this name. All have "auto", and NULL. */
bool gconv_device_has(const char *device, const char *name, const gconv_algorithm_info *(*at)(size_t index));

/* Sets price and told: the milliseconds that the model estimates, times `ratio`, what was measured over what was estimated,
 * as `source` found (1 says nothing). An algorithm outside the exact family costs 5% more, as the same bits everywhere are
 * worth something. */
void gconv_candidate_price(gconv_candidate *candidate, double model, double ratio, const char *source);

/* The candidate of `device` that is called `wanted`, or, for "auto", the cheapest one that can solve the problem, can be
 * used on this device, is no classic and not made of a library, and is not in `without`, names with commas between (may be
 * NULL). Among these, "auto" only takes one whose bound is above its accuracy if all are, and then that of the least bound.
 * A line for each that was looked at is written to `reasons`. GCONV_BAD_ARGUMENT for names that no candidate of any device
 * has, GCONV_UNSUPPORTED with the obstacle. */
gconv_status gconv_pick(const gconv_candidate *candidates, size_t count, const char *device, const char *wanted,
                        const char *without, FILE *reasons, size_t *picked);

#endif
