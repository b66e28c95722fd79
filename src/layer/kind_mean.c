/* SPDX-License-Identifier: MIT */
/* The mean of each channel over height and width. */
#include "kernels/mean.h"
#include "layer/kind.h"

#include <math.h>

static void explain(const gconv_step *step, const gconv_step *pads, FILE *text) {
  fprintf(text, "  mean of each channel over height and width, in float64 and a fixed order\n");
}

/* Sums are float64: their rounding is far below the rounding of the result. */
static void verify(const gconv_verified_layer *layer, size_t plane) {
  const size_t count = (size_t)gconv_layer_plane(&layer->step->problem);
  double sum = 0, allowed = 0, magnitude = 0;
  for (size_t i = plane * count; i < (plane + 1) * count; i++) {
    sum += layer->in->value[i];
    magnitude += fabs(layer->in->value[i]) + layer->in->allowed[i];
    allowed += layer->in->allowed[i];
  }
  const double n = (double)count;
  layer->out->value[plane] = sum / n;
  layer->out->allowed[plane] = allowed / n + GCONV_UNIT * (fabs(sum) + allowed) / n + (n + 2) * 0x1p-52 * magnitude / n;
}

static void forward(const gconv_layer_planes *planes, size_t plane) {
  const int64_t count = gconv_layer_plane(planes->problem);
  planes->y[plane] = gconv_mean(planes->x + (int64_t)plane * count, count);
}

static void teach(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient) {
  const int64_t count = gconv_layer_plane(at->problem);
  for (int64_t i = 0; i < at->problem->channels * count; i++)
    dx[i] = dz[i / count] / (float)count;
}

GCONV_LAYER_WORK(mean, false, false, gconv_layer_resolve_bare, GCONV_ROWS_ALL, explain, verify, forward, teach,
                 GCONV_ON_A_GPU(mean));
