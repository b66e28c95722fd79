/* SPDX-License-Identifier: MIT */
/* The decoder of JPEG files that a GPU has, if this build has a codec for GPUs (image/gpu_codec.h). */
#ifndef GCONV_DEVICE_DECODER_H
#define GCONV_DEVICE_DECODER_H

#include "image/gpu_codec.h"

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
