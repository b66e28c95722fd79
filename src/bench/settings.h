/* SPDX-License-Identifier: MIT */
/* The settings of gconv bench. */
#pragma once

#include "bench/bench.h"

/* The kinds of plots, in the order of their names in src/cli/cmd_bench.c. */
typedef enum gconv_bench_plot_kind {
  GCONV_PLOT_FILTER,
  GCONV_PLOT_IMAGE,
  GCONV_PLOT_BLOCK,
  GCONV_PLOT_GRID,
  GCONV_PLOT_ROOFLINE
} gconv_bench_plot_kind;

struct gconv_bench_settings {
  gconv_bench_grid grid;
  gconv_bench_block blocks[GCONV_BENCH_MOST]; /* each is measured with each number of `grids` */
  int block_count;
  gconv_bench_list grids;   /* blocks of a grid; 0: the algorithm's own number */
  gconv_bench_list threads; /* numbers of threads; none: one for each processor */
  bool auto_check, sweep_blocks, sweep_grids, profile;
  const char *csv, *json; /* the file, "-" is standard output; NULL: the report is a table */
  const char *device, *plot;
  const char *against;             /* a device that experiments with layers are measured on, too; NULL: none */
  const char *figure, *experiment; /* name of a figure, of an experiment; NULL: none */
  int plot_kind;                   /* a gconv_bench_plot_kind, or -1: not given */
};

/* Checks the settings as they were given, and completes them. */
gconv_status gconv_bench_settle(gconv_bench_settings *settings);

/* Returns whether an experiment, whose name may be NULL, always reads counters of a GPU, as with --profile. */
bool gconv_bench_is_of_counters(const char *name);

/* Fails with GCONV_BAD_ARGUMENT if an option was given that the experiment, or a run without one, does not take. */
gconv_status gconv_bench_check_experiment(const gconv_bench_settings *settings);
