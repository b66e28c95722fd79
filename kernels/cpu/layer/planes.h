/* SPDX-License-Identifier: MIT */
/* Layers by the definition, sample by sample. One task is one output plane. */
#pragma once

#include "kernels/activation.h"
#include "stage.h"

static inline size_t gconv_layer_planes(const gconv_layer_problem *problem) {
  return (size_t)problem->images * (size_t)problem->filters;
}

/* Computes the plane of a task from the sums of its samples, without the bias: of image n, filter k, row p and column q. */
static inline gconv_status gconv_layer_each_output(const gconv_layer_execution *e,
                                                   float (*sum_at)(const gconv_layer_execution *e, int32_t n, int32_t k,
                                                                   int32_t p, int32_t q)) {
  const gconv_layer_problem *problem = e->problem;
  int32_t n = (int32_t)(e->task / (size_t)problem->filters), k = (int32_t)(e->task % (size_t)problem->filters);
  float bias = gconv_layer_biases(problem, e->weights)[k];
  const int64_t plane = (int64_t)problem->out_height * problem->out_width;
  float *out = e->out + (int64_t)e->task * plane;
  for (int32_t p = 0; p < problem->out_height; p++)
    for (int32_t q = 0; q < problem->out_width; q++)
      *out++ = gconv_activate(problem, sum_at(e, n, k, p, q) + bias);
  gconv_layer_follow(problem, out - plane, (size_t)plane);
  return GCONV_OK;
}
