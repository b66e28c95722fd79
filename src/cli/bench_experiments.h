/* SPDX-License-Identifier: MIT */
/*
 * Experiments with layers, known by name: what is measured (bench_experiments.c), and how it is told and drawn
 * (bench_experiment_report.c).
 */
#ifndef GCONV_CLI_BENCH_EXPERIMENTS_H
#define GCONV_CLI_BENCH_EXPERIMENTS_H

#include "cli/bench.h"

/* What stands along x in a plot; what else differs makes panels, and algorithms make lines. */
typedef enum gconv_experiment_axis { GCONV_OVER_BATCH, GCONV_OVER_SIZE, GCONV_OVER_WORKSPACE } gconv_experiment_axis;

/* One algorithm with one layer: N images of C x H x W with K filters of C x R x R, where they lie inside, without biases. */
typedef struct gconv_experiment_row {
  const char *algorithm; /* as asked for */
  const char *chosen;    /* what it came to; static storage */
  int32_t images, channels, height, width, filters, size;
  int32_t workspace_mib; /* that it may take; 0: the default */
  int32_t chunk;         /* images at a time, so that the workspace suffices */
  double workspace_used; /* bytes */
  double ms;             /* the median */
  double flop, estimate_ms;
  bool checked;
  double error, allowed; /* at the place where the error is the largest part of what is allowed */
  char obstacle[256];    /* why it was not measured; "" if it was */
} gconv_experiment_row;

typedef struct gconv_experiment_run {
  gconv_bench *bench;
  const char *name;
  gconv_experiment_axis axis;
  gconv_experiment_row *rows;
  size_t count;
} gconv_experiment_run;

/* Of tables and CSV; nothing where rows are printed at the end. */
void gconv_experiment_print_head(const gconv_experiment_run *run);
/* Called for the last row as soon as it is known. */
void gconv_experiment_print_row(const gconv_experiment_run *run);
void gconv_experiment_print_end(const gconv_experiment_run *run);
/* The status that the program ends with. */
int gconv_experiment_plot(const gconv_experiment_run *run);

#endif
