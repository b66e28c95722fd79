/* SPDX-License-Identifier: MIT */
/* Concat in training: the channels of an earlier output after those of the input. */
#include "layer/kind.h"

#include <string.h>

static void learn(const gconv_layer_case *at, float *y) {
  const gconv_layer_problem *l = at->problem;
  const size_t own = (size_t)l->channels * (size_t)gconv_layer_plane(l),
               more = (size_t)(l->filters - l->channels) * (size_t)gconv_layer_plane(l);
  memcpy(y, at->x, own * sizeof *y);
  memcpy(y + own, at->other, more * sizeof *y);
}

static void teach(const gconv_layer_case *at, const float *dz, float *dx, float *dother, float *gradient) {
  const gconv_layer_problem *l = at->problem;
  const size_t own = (size_t)l->channels * (size_t)gconv_layer_plane(l),
               more = (size_t)(l->filters - l->channels) * (size_t)gconv_layer_plane(l);
  memcpy(dx, dz, own * sizeof *dx);
  for (size_t i = 0; dother && i < more; i++)
    dother[i] += dz[own + i];
}

GCONV_LAYER_OF_GRAPHS(concat, learn, teach);
