/* SPDX-License-Identifier: MIT */
/* What tells one job from another, for --resume. */
#ifndef GCONV_CLI_DIGEST_H
#define GCONV_CLI_DIGEST_H

#include "cli/job.h"

/* A number that two runs share only if they make the same results of the same inputs, as far as was asked: the version of
 * the program, the coefficients of the job's filters or of its layers' banks (with the geometry that their files have), and
 * `settings`, the options that change results, as text. Where it is computed, and by how many threads, has no part in
 * it. */
uint64_t gconv_job_digest(const gconv_main_job *job, const char *settings);

#endif
