/* SPDX-License-Identifier: MIT */
/* Pools in training: the mean of each window. */
#include "layer/kind.h"

#include <string.h>

static void learn(const gconv_layer_case *at, float *y) {
  const gconv_layer_problem *l = at->problem;
  const float count = (float)((int64_t)l->rows * l->columns);
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++) {
        const float *x = at->x + c * gconv_layer_plane(l) + p * l->stride_y * l->width + q * l->stride_x;
        float sum = 0;
        for (int64_t r = 0; r < l->rows; r++)
          for (int64_t s = 0; s < l->columns; s++)
            sum += x[r * l->width + s];
        *y++ = sum / count;
      }
}

static void teach(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient) {
  const gconv_layer_problem *l = at->problem;
  const float count = (float)((int64_t)l->rows * l->columns);
  memset(dx, 0, (size_t)l->channels * (size_t)gconv_layer_plane(l) * sizeof *dx);
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++, dz++) {
        float *to = dx + c * gconv_layer_plane(l) + p * l->stride_y * l->width + q * l->stride_x;
        for (int64_t r = 0; r < l->rows; r++)
          for (int64_t s = 0; s < l->columns; s++)
            to[r * l->width + s] += *dz / count;
      }
}

GCONV_LAYER_OF_GRAPHS(avgpool, learn, teach);
