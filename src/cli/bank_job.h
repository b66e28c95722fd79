/* SPDX-License-Identifier: MIT */
/* What the options come to where -f names banks: layers, and what becomes of their outputs. */
#ifndef GCONV_CLI_BANK_JOB_H
#define GCONV_CLI_BANK_JOB_H

#include "batch/banks.h"
#include "cli/settings.h"

/* Zero-initialise before first use. */
typedef struct gconv_bank_job {
  gconv_bank *banks; /* owned: one a layer */
  gconv_layer *layers;
  size_t count;
  gconv_bank_batch batch; /* without what is common */
} gconv_bank_job;

/* Reads the banks, and settles all but what depends on the format of the results. */
gconv_status gconv_bank_job_read(const gconv_settings *settings, gconv_bank_job *job, gconv_message *message);

/* Names the results, as gconv_outputs_name(): what is one array of all inputs becomes known here. */
gconv_status gconv_bank_job_name(const gconv_settings *settings, const gconv_inputs *inputs, gconv_bank_job *job,
                                 gconv_outputs *outputs, gconv_message *message);

/* --dry-run --explain: what a network for the image at `path` would do. Says what fails. */
bool gconv_bank_job_explain(const gconv_settings *settings, const gconv_bank_job *job, const char *path);

/* Frees what the job owns. */
void gconv_bank_job_free(gconv_bank_job *job);

#endif
