/* SPDX-License-Identifier: MIT */
/* Chooses an algorithm from a table, for filters as well as layers. */
#pragma once

#include "base/status.h"

#include <stdio.h>

/* The properties of an algorithm that the choice needs: a row of the table. */
typedef struct gconv_candidate {
  const gconv_algorithm_info *info;
  const char *(*available)(void); /* as in gconv_algorithm */
  bool library, classic;          /* library: as in gconv_layer_algorithm; classic: as in gconv_algorithm */
  const char *obstacle;           /* why it cannot solve the problem; NULL: it can */
  double price;                   /* milliseconds */
  double bound, accuracy; /* bound of its error, and half a level of the result, in one unit; accuracy 0: any bound */
  char told[160];         /* the price in words: "estimated at 3 ms" */
} gconv_candidate;

enum { GCONV_MOST_CANDIDATES = 48 };

/* Returns whether devices called `device`, such as "cpu" or "cuda:1", have an algorithm of this name. True for "auto" and
 * NULL. */
bool gconv_device_has(const char *device, const char *name, const gconv_algorithm_info *(*at)(size_t index));

/* Sets price and told. The price is `model`, the estimate in milliseconds, times `ratio`: measured time over estimate, as
 * `source` found. A ratio of 1 is not mentioned in `told`. An algorithm outside the exact family costs 5% more, as equal
 * bits everywhere are worth something. */
void gconv_candidate_price(gconv_candidate *candidate, double model, double ratio, const char *source);

/* Sets *picked to the candidate of `device` that is called `wanted`. For "auto", it is the cheapest candidate that can solve
 * the problem and be used on this device. "auto" takes no classic, no algorithm of a library, and none that is in `without`,
 * a list of names with commas (may be NULL). Candidates whose bound is above their accuracy are not taken. If all are like
 * this, the one with the least bound is taken. Writes a line to `reasons`, if it is not NULL, for each candidate. Fails with
 * GCONV_BAD_ARGUMENT if no candidate of any device has the name, and with GCONV_UNSUPPORTED and the obstacle. */
gconv_status gconv_pick(const gconv_candidate *candidates, size_t count, const char *device, const char *wanted,
                        const char *without, FILE *reasons, size_t *picked);
