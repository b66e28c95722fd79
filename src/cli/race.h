/* SPDX-License-Identifier: MIT */
/* --algorithm all: every algorithm of the device on the user's own image and filters. */
#ifndef GCONV_CLI_RACE_H
#define GCONV_CLI_RACE_H

#include "gconv.h"

#include <stdio.h>

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

/* Runs them, checks that they agree, and prints a table. The name of the fastest, in static storage; NULL, and said, if
 * there is none, or if one is wrong. */
const char *gconv_race_run(const gconv_race *race, char device[32]);

#endif
