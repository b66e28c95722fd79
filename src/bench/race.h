/* SPDX-License-Identifier: MIT */
/* --algorithm all: every algorithm of the device on the user's own image, with the user's filters or banks. */
#ifndef GCONV_BENCH_RACE_H
#define GCONV_BENCH_RACE_H

#include "gconv_jobs.h"

#include <stdio.h>

typedef struct gconv_race {
  const gconv_batch *batch;     /* what would be done: its device, reading, format and --verify count */
  const gconv_filters *filters; /* or, if there are layers, those */
  const gconv_options *options;
  const gconv_layer *layers; /* NULL: filters */
  size_t layer_count;
  const gconv_network_options *network;
  const char *path; /* of the image */
  FILE *out;        /* where the table goes */
} gconv_race;

/* Runs every algorithm, checks that they agree, and prints a table. *fastest becomes the name of the fastest, in static
 * storage, and `device` the name of the device. Fails, with gconv_last_error(), if none can run or one is wrong. */
gconv_status gconv_race_run(const gconv_race *race, const char **fastest, char device[32]);

#endif
