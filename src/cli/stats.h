/* SPDX-License-Identifier: MIT */
/* What the files of gconv stats share: cmd_stats.c finds the numbers, stats_report.c reports them. */
#pragma once

#include "base/json.h"
#include "cli/command.h"
#include "gconv_science.h"

typedef struct gconv_stats_settings {
  gconv_common common;
  gconv_texts filters; /* the filter whose result is measured; empty: none */
  gconv_given_border border;
  gconv_numbers percentiles;
  bool csv, channels;
} gconv_stats_settings;

/* The report so far. Set the first four fields, and zero the others. */
typedef struct gconv_stats_telling {
  const gconv_stats_settings *settings;
  const gconv_inputs *inputs;
  const double *percentiles;
  int percentile_count;
  json_t *list;    /* owned: with --json */
  FILE *plot;      /* with --plot: the panels so far; owned */
  char *plot_text; /* owned: the text of `plot` */
  size_t plot_size, panels;
  size_t done; /* files reported so far */
} gconv_stats_telling;

/* Prints the numbers of input `index`, or keeps them for the end. */
void gconv_stats_tell(gconv_stats_telling *t, size_t index, const gconv_stats *stats);

/* Ends the report: prints JSON, writes the plot. */
gconv_status gconv_stats_tell_end(gconv_stats_telling *t);
