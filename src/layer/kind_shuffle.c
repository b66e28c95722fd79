/* SPDX-License-Identifier: MIT */
/* Pixel shuffle in training: N * N channels become one of N times as many rows and columns. */
#include "layer/kind.h"

/* Returns the place in the output of sample (y, x) of input channel `channel`. */
static int64_t place_of(const gconv_layer_problem *l, int64_t channel, int64_t y, int64_t x) {
  const int64_t n = l->rows, c = channel / (n * n), i = channel / n % n, j = channel % n;
  return (c * l->out_height + y * n + i) * l->out_width + x * n + j;
}

static void learn(const gconv_layer_case *at, float *y) {
  const gconv_layer_problem *l = at->problem;
  const float *x = at->x;
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t row = 0; row < l->height; row++)
      for (int64_t column = 0; column < l->width; column++)
        y[place_of(l, c, row, column)] = *x++;
}

static void teach(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient) {
  const gconv_layer_problem *l = at->problem;
  for (int64_t c = 0; c < l->channels; c++)
    for (int64_t row = 0; row < l->height; row++)
      for (int64_t column = 0; column < l->width; column++)
        *dx++ = dz[place_of(l, c, row, column)];
}

GCONV_LAYER_OF_GRAPHS(shuffle, learn, teach);
