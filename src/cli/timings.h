/* SPDX-License-Identifier: MIT */
/* --timings: where the time of each image, and of all images, went. */
#pragma once

#include "gconv_jobs.h"

#include <stdio.h>

/* Sums over executions. */
typedef struct gconv_timings_sum {
  size_t images;
  double kernel_ms, bytes, flop;
} gconv_timings_sum;

typedef enum gconv_timings_style { GCONV_TIMINGS_NONE, GCONV_TIMINGS_TABLE, GCONV_TIMINGS_JSON } gconv_timings_style;

/* Set the first two, zero the rest. */
typedef struct gconv_timings_total {
  FILE *out;
  int style;                    /* a gconv_timings_style: whether anything is printed */
  size_t inputs, failed;        /* inputs begun; inputs with a failed result */
  uint64_t pixels;              /* pixels of executed inputs */
  gconv_timings_sum cold, warm; /* cold: first executions of a plan; warm: the others */
  char algorithm[32], math[16]; /* algorithm and math of the executions; "several" if they differ */
} gconv_timings_total;

/* Brings *total up to date with one image, and prints a line of the table, or of JSON, for it. */
void gconv_timings_report(gconv_timings_total *total, const gconv_report *report);

/* Prints the summary, as text or JSON. */
void gconv_timings_end(const gconv_timings_total *total, const gconv_batch_summary *summary);
