/* SPDX-License-Identifier: MIT */
/* Whether a GPU pays: the parts of gconv_device_choose(), for tests. */
#ifndef GCONV_CONV_DEVICE_CHOOSE_H
#define GCONV_CONV_DEVICE_CHOOSE_H

#include "gconv.h"

/* Whether the whole job is done sooner with a GPU than by the CPU alone: with the part of the GPU's start that nothing else
 * hides counted. The GPU is judged by the better of two ways, without and with its decoder of JPEGs; sets choice->decodes
 * for the second. The rest of *choice is given. Times of the job are of all threads together, not of one. */
bool gconv_gpu_pays(gconv_device_choice *choice, const gconv_job *job);

/* Sets cpu_ms and gpu_ms of the choice: what the job takes on the CPU, which is open and may be tuned, and on a GPU. */
gconv_status gconv_job_estimate(gconv_device *cpu, const gconv_job *job, gconv_device_choice *choice);

#endif
