/* SPDX-License-Identifier: MIT */
/* --algorithm all: every algorithm of the device on the user's own image and filters. */
#ifndef GCONV_CLI_RACE_H
#define GCONV_CLI_RACE_H

#include "gconv.h"

#include <stdio.h>

enum { GCONV_RACE_RUNS = 15 }; /* of which the median counts */

typedef struct gconv_race {
  const char *device;
  int threads;
  const char *input; /* the path of the image */
  uint64_t max_pixels;
  const gconv_format_info *format; /* of the results */
  const gconv_filters *filters;
  const gconv_options *options;
  bool verify; /* hold all of each result to float64, in place of some rows */
  FILE *out;   /* where the table goes */
} gconv_race;

/* Runs every algorithm of the device, checks that they agree, and prints a table. Returns the name of the fastest, in static
 * storage, and writes the name of the device to `device`; or returns NULL, having said why, if none can run or one is wrong.
 */
const char *gconv_race_run(const gconv_race *race, char device[32]);

/* Whether an algorithm that is estimated to take `ms` is too slow to be waited for: seconds for all of its runs. */
bool gconv_race_is_hopeless(double ms);

/* Whether `name` is one of the names in `without`, which commas part; NULL: none. */
bool gconv_race_leaves_out(const char *without, const char *name);

#endif
