/* SPDX-License-Identifier: MIT */
/* --algorithm all, where -f names banks. */
#ifndef GCONV_CLI_BANK_RACE_H
#define GCONV_CLI_BANK_RACE_H

#include "cli/bank_job.h"

#include <stdio.h>

/* Runs every algorithm for layers on the image at `path`. They must agree. The name of the fastest, in static
 * storage; NULL, and said, if there is none, or if one is wrong. `device` becomes the one it ran on. */
const char *gconv_bank_race_run(const gconv_settings *settings, const gconv_bank_job *job, const char *path, FILE *out,
                                char device[32]);

#endif
