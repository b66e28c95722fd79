/* SPDX-License-Identifier: MIT */
/*
 * The main job, images in and filtered images out, as its parts share it:
 *   filter_prepare.c   what comes before the first image
 *   filter_job.c       the job as src/batch takes it
 *   filter_report.c    what is told of the images
 *   filter_dry_run.c   what would be done
 *   cmd_filter.c       the work, and the command
 */
#ifndef GCONV_CLI_FILTER_JOB_H
#define GCONV_CLI_FILTER_JOB_H

#include "cli/bank_job.h"
#include "cli/timings.h"

/* Zero-initialise all but the settings, which gconv_settings_default() begins. */
typedef struct gconv_filter_job {
  gconv_settings settings;
  gconv_inputs inputs;
  gconv_outputs outputs;
  gconv_filters filters;
  gconv_manifest *manifest; /* with --resume */
  bool has_banks;           /* it applies banks, as `bank` says, and no filters */
  gconv_bank_job bank;
  gconv_timings_total total;
  FILE *out;      /* where reports go: standard output, unless an image goes there */
  bool progress;  /* a line of progress is wanted */
  char raced[32]; /* the device of the race, with --algorithm all */
} gconv_filter_job;

/* ---- filter_prepare.c ---- */

/* Everything that can be known before the first image is read: settles the options, reads filters or banks, finds the
 * inputs, names the outputs, and keeps those of this shard. */
gconv_status gconv_filter_prepare(gconv_filter_job *job, gconv_message *message);

/* ---- filter_job.c ---- */

/* The job as src/batch takes it. Valid as long as *job, to which its reports go. */
gconv_batch gconv_filter_batch(gconv_filter_job *job);

/* Opens the manifest, where --resume wants one and it is not open yet. With `writes` it goes on, else it is only read. */
gconv_status gconv_filter_open_manifest(gconv_filter_job *job, bool writes, gconv_message *message);

/* ---- filter_report.c ---- */

/* Tells of one image, of which `user`, a gconv_filter_job, has the settings: gconv_batch.report. */
void gconv_filter_report(const gconv_report *report, void *user);

/* --explain: the lines of `explanation`, and why the device was chosen; "": it was asked for. */
void gconv_filter_print_explanation(const char *explanation, const char *device_reason);

/* Tells of the whole run. */
void gconv_filter_report_all(const gconv_filter_job *job, const gconv_batch_summary *summary);

/* ---- filter_dry_run.c ---- */

/* --dry-run: what would be read and written, and, with --explain, how. Returns what the program ends with. */
int gconv_filter_dry_run(gconv_filter_job *job);

#endif
