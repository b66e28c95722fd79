/* SPDX-License-Identifier: MIT */
/* Volumes with samples that are missing, and weights (holes.c). */
#pragma once

#include "volume/volume.h"

/* A volume prepared as gconv_volume is, with missing samples and weights if the options or the volume have any. */
typedef struct gconv_volume_holes gconv_volume_holes;

/* These functions do what those of volume.h do. */
gconv_status gconv_volume_holes_create(gconv_device *device, const gconv_image *like, const char *spec,
                                       const gconv_volume_options *options, gconv_volume_holes **holes);
void gconv_volume_holes_free(gconv_volume_holes *h);
const gconv_image *gconv_volume_holes_output(const gconv_volume_holes *h);
int32_t gconv_volume_holes_step(const gconv_volume_holes *h, double *bytes);
void gconv_volume_holes_needed(const gconv_volume_holes *h, int32_t first, int32_t count, int32_t *begin, int32_t *end);
gconv_status gconv_volume_holes_execute(gconv_volume_holes *h, const gconv_image *in, int32_t in_plane, int32_t first,
                                        gconv_image *out);
