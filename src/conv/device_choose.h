/* SPDX-License-Identifier: MIT */
/* Whether a GPU pays: the parts of gconv_device_choose(), for tests. */
#ifndef GCONV_CONV_DEVICE_CHOOSE_H
#define GCONV_CONV_DEVICE_CHOOSE_H

#include "gconv.h"

/* Whether the job is done sooner with a GPU: what the CPU takes is more than what a GPU does, with its end, and with the
 * part of its start that nothing hides. What it does for several images is hidden by reading and writing the others, but for
 * one of them. All else is the same. */
bool gconv_gpu_pays(const gconv_device_choice *choice, const gconv_job *job);

/* Sets cpu_ms and gpu_ms of the choice: what the job takes on the CPU, which is open and may be tuned, and on a GPU. */
gconv_status gconv_job_estimate(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice);

#endif
