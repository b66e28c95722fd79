/* SPDX-License-Identifier: MIT */
/* --windows: a network over the windows of a signal. */
#pragma once

#include "cli/rows.h"
#include "gconv_learn.h"

/* What the options ask for. */
typedef struct gconv_windows_task {
  const struct gconv_common *common; /* with one input, and an output */
  const char *network;               /* the path of its file */
  gconv_network_options options;     /* options of the network */
  const char *raw;                   /* the type of samples, if the signal has no header; else NULL */
  gconv_windows windows;
  const gconv_naming *naming; /* how the output is named */
  int timings;                /* a gconv_timings_style */
  gconv_rows_format format;   /* of --format, if it names a format of rows */
} gconv_windows_task;

/* Does the work, for a signal of any length in bounded memory. Returns the exit status. */
int gconv_windows_run(const gconv_windows_task *task);
