/* SPDX-License-Identifier: MIT */
/* What the files of gconv stats share: cmd_stats.c finds the numbers, stats_report.c reports them, stats_places.c looks at
 * single samples. */
#pragma once

#include "base/json.h"
#include "cli/command.h"
#include "gconv_science.h"

typedef struct gconv_stats_settings {
  gconv_common common;
  gconv_texts filters; /* the filter whose result is measured; empty: none */
  gconv_given_border border;
  gconv_numbers percentiles;
  gconv_area area; /* --region */
  bool csv, channels, values, where;
} gconv_stats_settings;

/* Where the least and the largest sample of a channel is first: column, row and frame from 0 on; -1: there is none. */
typedef struct gconv_stats_place {
  int32_t min[3], max[3];
} gconv_stats_place;

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
  size_t done;                     /* files reported so far */
  const gconv_stats_place *places; /* with --where: of each channel of the current file */
  int32_t place_count;
} gconv_stats_telling;

/* Prints the numbers of input `index`, or keeps them for the end. */
void gconv_stats_tell(gconv_stats_telling *t, size_t index, const gconv_stats *stats);

/* Ends the report: prints JSON, writes the plot. */
gconv_status gconv_stats_tell_end(gconv_stats_telling *t);

/* Makes the header of an image that of a rectangle in it; without a rectangle, leaves it. Its memory stays that of `image`.
 */
gconv_status gconv_stats_cut(const char *path, const gconv_area *area, gconv_image *image);
/* Prints samples: a line a row, a block a channel and frame. unit: floats are multiplied by it; 0: they are not. Several
 * blocks have headings; headed: a single one has, too. */
void gconv_stats_print_values(const char *path, const gconv_image *image, double unit, const gconv_stats *stats,
                              bool headed);
/* Finds the places of all channels of a rectangle. places: image->channels. */
void gconv_stats_find_places(const gconv_image *image, double unit, const gconv_area *area, gconv_stats_place *places);
