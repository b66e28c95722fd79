/* SPDX-License-Identifier: MIT */
/* Choosing one of the algorithms of a table, whatever they solve. */
#ifndef GCONV_CONV_PICK_H
#define GCONV_CONV_PICK_H

#include "base/status.h"

#include <stdio.h>

/* A row of the table, as far as choosing goes. */
typedef struct gconv_candidate {
  const gconv_algorithm_info *info;
  const char *(*available)(void); /* as in gconv_algorithm */
  const char *obstacle;           /* why it cannot solve the problem; NULL: it can */
  double price;                   /* milliseconds */
  char told[160];                 /* of the price: "estimated at 3 ms" */
} gconv_candidate;

enum { GCONV_MOST_CANDIDATES = 64 };

/* Milliseconds, of which `start` are taken once by a library that is not loaded yet: spread over `executions`, and for what
 * is not of the exact family 5 % more, as the same bits everywhere are worth something. Sets price and told. `ratio` is what
 * was measured over what the model says, as `source` found: 1 says nothing. */
void gconv_candidate_price(gconv_candidate *candidate, double model, double ratio, const char *source, double start,
                           size_t executions);

/* The candidate of `device` that is called `wanted`, or, for "auto", the cheapest one that can solve the problem, can be
 * loaded, and is not in `without`, names with commas between (may be NULL). A line for each that was looked at is written to
 * `reasons`. GCONV_BAD_ARGUMENT for names that no candidate of any device has, GCONV_UNSUPPORTED with the obstacle. */
gconv_status gconv_pick(const gconv_candidate *candidates, size_t count, const char *device, const char *wanted,
                        const char *without, FILE *reasons, size_t *picked);

#endif
