/* SPDX-License-Identifier: MIT */
/* reference: computes the definition in layer_problem.h step by step. It is slow; the exact family is compared with it. One
 * task is one output plane. */
#include "planes.h"

static float sum_at(const gconv_layer_execution *e, int32_t n, int32_t k, int32_t p, int32_t q) {
  const gconv_layer_problem *problem = e->problem;
  int32_t channels = problem->channels / problem->groups, first = k / (problem->filters / problem->groups) * channels;
  const float *weight = e->weights + k * gconv_layer_taps(problem);
  float sum = 0;
  for (int32_t c = 0; c < channels; c++) {
    const float *plane = e->in + ((int64_t)n * problem->channels + first + c) * problem->height * problem->width;
    for (int32_t r = 0; r < problem->rows; r++) {
      int64_t y = (int64_t)p * problem->stride_y - problem->pad_top + (int64_t)r * problem->dilation_y;
      for (int32_t s = 0; s < problem->columns; s++, weight++) {
        int64_t x = (int64_t)q * problem->stride_x - problem->pad_left + (int64_t)s * problem->dilation_x;
        bool inside = y >= 0 && y < problem->height && x >= 0 && x < problem->width;
        sum = fmaf(*weight, inside ? plane[y * problem->width + x] : 0, sum);
      }
    }
  }
  return sum;
}

static gconv_status execute(const gconv_layer_execution *e) {
  return gconv_layer_each_output(e, sum_at);
}

static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  return machine->launch_ms + gconv_layer_flop(problem) / 2 / (machine->fma_per_ms / 220);
}

const gconv_layer_algorithm gconv_layer_algorithm_cpu_reference = {
    .info = {"reference", "cpu", "the definition, one multiplication after another; for comparison", true},
    .supports = gconv_layer_takes_fp32,
    .tasks = gconv_layer_planes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};
