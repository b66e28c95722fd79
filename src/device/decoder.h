/* SPDX-License-Identifier: MIT */
/* Facts about GPUs that are needed before there is a plan: whether the machine may have a GPU, and the state of its JPEG
 * decoder. The decoder exists if this build has a codec for GPUs (image/gpu_codec.h). */
#pragma once

#include "image/gpu_codec.h"

/* Returns whether this build has CUDA, and the machine has the device files of its driver. Loads nothing. Opening a GPU
 * takes 0.2 to 0.3 s; a thread of the caller may open it while other threads read images. */
bool gconv_gpu_may_be_there(void);

/* Returns why no GPU can decode JPEG, such as "libnvjpeg.so.13 was not found", or NULL if GPUs can. Thread-safe; static
 * storage. */
const char *gconv_device_decoder_obstacle(void);
/* Starts the JPEG decoder of the device, for gconv_plan_execute_jpeg(). The first call takes a while; later calls do
 * nothing. If something is missing, fails with GCONV_UNSUPPORTED, and says what. Other threads can make and execute plans at
 * the same time. */
gconv_status gconv_device_start_decoder(gconv_device *device);
/* Returns how many calls of the decoder would run before a file that is submitted now: 0 if the decoder is idle, or was not
 * started. Thread-safe. */
int gconv_device_decoder_backlog(gconv_device *device);
