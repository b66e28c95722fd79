/* SPDX-License-Identifier: MIT */
/* Pools in training: the largest value of each window. Of equal ones, the first gets the gradient. */
#include "layer/kind.h"

#include <string.h>

/* Returns the place of the largest value of a window in its plane. */
static int64_t largest(const gconv_layer_problem *l, const float *plane, int64_t p, int64_t q) {
  int64_t first = p * l->stride_y * l->width + q * l->stride_x, best = first;
  for (int64_t r = 0; r < l->rows; r++)
    for (int64_t s = 0; s < l->columns; s++)
      if (plane[first + r * l->width + s] > plane[best])
        best = first + r * l->width + s;
  return best;
}

static void learn(const gconv_layer_case *at, float *y) {
  const gconv_layer_problem *l = at->problem;
  for (int64_t c = 0; c < l->channels; c++) {
    const float *plane = at->x + c * gconv_layer_plane(l);
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++)
        *y++ = plane[largest(l, plane, p, q)];
  }
}

static void teach(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient) {
  const gconv_layer_problem *l = at->problem;
  memset(dx, 0, (size_t)l->channels * (size_t)gconv_layer_plane(l) * sizeof *dx);
  for (int64_t c = 0; c < l->channels; c++) {
    const int64_t begin = c * gconv_layer_plane(l);
    for (int64_t p = 0; p < l->out_height; p++)
      for (int64_t q = 0; q < l->out_width; q++)
        dx[begin + largest(l, at->x + begin, p, q)] += *dz++;
  }
}

GCONV_LAYER_OF_GRAPHS(maxpool, learn, teach);
