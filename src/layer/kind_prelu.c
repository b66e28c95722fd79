/* SPDX-License-Identifier: MIT */
/* PReLU in training. The gradient of a slope is summed in float64, in the order of the rows. */
#include "layer/kind.h"

static void learn(const gconv_layer_case *at, float *y) {
  const int64_t plane = gconv_layer_plane(at->problem);
  for (int64_t c = 0; c < at->problem->channels; c++)
    for (int64_t i = c * plane; i < (c + 1) * plane; i++)
      y[i] = at->x[i] < 0 ? at->x[i] * at->parameters[c] : at->x[i];
}

static void teach(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient) {
  const int64_t plane = gconv_layer_plane(at->problem);
  for (int64_t c = 0; c < at->problem->channels; c++) {
    double sum = 0;
    for (int64_t i = c * plane; i < (c + 1) * plane; i++) {
      dx[i] = at->x[i] < 0 ? dz[i] * at->parameters[c] : dz[i];
      sum += at->x[i] < 0 ? (double)at->x[i] * (double)dz[i] : 0;
    }
    gradient[c] = (float)sum;
  }
}

GCONV_LAYER_OF_GRAPHS(prelu, learn, teach);
