/* SPDX-License-Identifier: MIT */
/* --algorithm all, where -f names banks. */
#ifndef GCONV_CLI_BANK_RACE_H
#define GCONV_CLI_BANK_RACE_H

#include "cli/bank_job.h"

#include <stdio.h>

/* Runs every algorithm for layers on the image at `path`, checks that they agree, and prints a table to `out`. Returns the
 * name of the fastest, in static storage, and writes the name of the device to `device`; or returns NULL, having said why,
 * if none can run or one is wrong. */
const char *gconv_bank_race_run(const gconv_settings *settings, const gconv_bank_job *job, const char *path, FILE *out,
                                char device[32]);

#endif
