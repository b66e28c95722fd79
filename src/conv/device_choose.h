/* SPDX-License-Identifier: MIT */
/* Whether a GPU pays: the parts of gconv_device_choose(), for tests. */
#ifndef GCONV_CONV_DEVICE_CHOOSE_H
#define GCONV_CONV_DEVICE_CHOOSE_H

#include "gconv.h"

/* Whether the job is done sooner with a GPU, to its end: what the CPU takes is more than what a GPU does, with the part of
 * its start that nothing hides. Of the GPU, it is the better of two ways, the second of which is with its decoder: sets
 * choice->decodes. All else of the choice is set; times of the job are those of all threads. */
bool gconv_gpu_pays(gconv_device_choice *choice, const gconv_job *job);

/* Sets cpu_ms and gpu_ms of the choice: what the job takes on the CPU, which is open and may be tuned, and on a GPU. */
gconv_status gconv_job_estimate(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice);

#endif
