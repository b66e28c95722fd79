/* SPDX-License-Identifier: MIT */
/* GPUs before there is a plan: whether one may be there, and its decoder of JPEG files, if this build has a codec for GPUs
 * (image/gpu_codec.h). */
#ifndef GCONV_DEVICE_DECODER_H
#define GCONV_DEVICE_DECODER_H

#include "image/gpu_codec.h"

/* Whether this build and machine may have a GPU for CUDA: told from the nodes of its driver, without loading anything.
 * Opening one takes 0.2 to 0.3 s: a thread of the caller's own may do that while others read images. */
bool gconv_gpu_may_be_there(void);

/* What keeps all GPUs from decoding JPEG: "libnvjpeg.so.13 was not found"; NULL if nothing does. Thread-safe; static
 * storage. */
const char *gconv_device_decoder_obstacle(void);
/* Starts what decodes JPEG files on the device, for gconv_plan_execute_jpeg(). It takes a while the first time, nothing
 * later. GCONV_UNSUPPORTED says what is missing. Plans can be made and executed meanwhile. */
gconv_status gconv_device_start_decoder(gconv_device *device);
/* How long a file that comes now would wait for the decoder: the number of its calls that come before. 0 if the decoder is
 * idle, or was not started. Thread-safe. */
int gconv_device_decoder_backlog(gconv_device *device);

#endif
