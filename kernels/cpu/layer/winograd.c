/* SPDX-License-Identifier: MIT */
/*
 * winograd: F(2 x 2, 3 x 3) in float32 (kernels/winograd.h), band by band (winograd_walk.h).
 *
 * 16 of 36 multiplications remain, a factor of 2.25. But there are 32 additions for each tile and channel, 24 for each tile
 * and filter, and the filters are 16 / 9 as large. So it needs at least 32 channels and 32 filters, and an image that is
 * large enough to use each filter many times: 7 x 7 is too small.
 */
#include "kernels/winograd.h"
#include "stage.h"

enum { SIDE = 2, POINTS = GCONV_WINOGRAD_POINTS };

typedef struct transforms {
  void (*input)(const float *from, const int64_t *offsets, int64_t count, float *to, int64_t point);
  void (*output)(const float *from, int64_t point, float *const *to);
} transforms;

#define TEMPLATE "layer/winograd_template.h"
#include "../each_isa.h"

static void transform_filter(const float *g, float *to, int64_t stride) {
  gconv_winograd_filter(g, to, stride);
}

#include "winograd_walk.h"

WINOGRAD(winograd, "3 x 3 filters on 2 x 2 outputs with 16 multiplications for 36", 0.25, gconv_winograd_bound)
