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
  double bound,
      accuracy;   /* bound of its error, and half a level of the result, in one unit. accuracy 0: any bound will do */
  char told[160]; /* the price in words: "estimated at 3 ms" */
} gconv_candidate;

enum { GCONV_MOST_CANDIDATES = 48 };

/* Returns whether devices called `device`, such as "cpu" or "cuda:1", have an algorithm of this name. True for "auto" and
 * NULL. */
bool gconv_device_has(const char *device, const char *name, const gconv_algorithm_info *(*at)(size_t index));

/* Sets price and told. The price is `model`, the estimate in milliseconds, times `ratio`: the measured time over the
 * estimate. `source` says who measured: "gconv tune found". A ratio of 1 is not mentioned in `told`. The price of an
 * algorithm outside the exact family is raised by 5%, because equal bits on all devices are worth something. */
void gconv_candidate_price(gconv_candidate *candidate, double model, double ratio, const char *source);

/* Sets *picked to the candidate of `device` that is called `wanted`. For "auto", it is the cheapest candidate that can solve
 * the problem and be used on this device. "auto" takes no classic, no algorithm of a library, and none that is in `without`,
 * a list of names with commas (may be NULL). "auto" prefers candidates whose bound is within their accuracy. If there are
 * none, it takes the one whose bound is the smallest multiple of its accuracy. If `reasons` is not NULL, writes a line to it
 * for each candidate. Fails with GCONV_BAD_ARGUMENT if no device has an algorithm that `without` names, and with
 * GCONV_UNSUPPORTED if the device has no algorithm `wanted`, or if it cannot solve the problem. */
gconv_status gconv_pick(const gconv_candidate *candidates, size_t count, const char *device, const char *wanted,
                        const char *without, FILE *reasons, size_t *picked);
