/* SPDX-License-Identifier: MIT */
/* Volumes with samples that are missing, and weights (holes.c). */
#pragma once

#include "volume/volume.h"

typedef struct gconv_volume_holes gconv_volume_holes;

/* Makes what filters such volumes, of options that gconv_wants_weights(). */
gconv_status gconv_volume_holes_create(gconv_device *device, const gconv_image *like, const char *spec,
                                       const gconv_volume_options *options, gconv_volume_holes **holes);
void gconv_volume_holes_free(gconv_volume_holes *h);
/* Returns the volume of the products: its steps and needs are those of the whole. */
gconv_volume *gconv_volume_holes_values(const gconv_volume_holes *h);
/* Adds the planes under the anchor to those that are needed. */
void gconv_volume_holes_needed(const gconv_volume_holes *h, int32_t first, int32_t count, int32_t *begin, int32_t *end);
/* Does gconv_volume_execute(). */
gconv_status gconv_volume_holes_execute(gconv_volume_holes *h, const gconv_image *in, int32_t in_plane, int32_t first,
                                        const gconv_image *out);
