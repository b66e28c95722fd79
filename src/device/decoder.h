/* SPDX-License-Identifier: MIT */
/* What is known of GPUs before there is a plan: whether the machine may have one, and the state of its JPEG decoder. The
 * decoder exists if this build has a codec for GPUs (image/gpu_codec.h). */
#pragma once

#include "image/gpu_codec.h"

/* True if this build has CUDA and the machine has the device files of its driver. Loads nothing. Opening a GPU takes 0.2 to
 * 0.3 s; a thread of the caller may do that while other threads read images. */
bool gconv_gpu_may_be_there(void);

/* The reason why no GPU can decode JPEG, such as "libnvjpeg.so.13 was not found"; NULL if there is none. Thread-safe; static
 * storage. */
const char *gconv_device_decoder_obstacle(void);
/* Starts the JPEG decoder of the device, for gconv_plan_execute_jpeg(). The first call takes a while; later calls do
 * nothing. GCONV_UNSUPPORTED says what is missing. Other threads can make and execute plans at the same time. */
gconv_status gconv_device_start_decoder(gconv_device *device);
/* The number of calls of the decoder that run before a file that is submitted now. 0 if the decoder is idle, or was not
 * started. Thread-safe. */
int gconv_device_decoder_backlog(gconv_device *device);
