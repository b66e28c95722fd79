/* SPDX-License-Identifier: MIT */
#ifndef GCONV_CONV_DEVICE_CHOOSE_H
#define GCONV_CONV_DEVICE_CHOOSE_H

#include "gconv.h"

/* Whether what the CPU takes is more than what a GPU does with the part of its start that nothing hides: of the job's whole
 * time, all else is the same. */
bool gconv_gpu_pays(const gconv_device_choice *choice, double hidden_ms);

#endif
