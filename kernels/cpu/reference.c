/* SPDX-License-Identifier: MIT */
/*
 * reference: the definition, step by step.
 *
 * It computes one output sample after the other, and adds one tap after the other (gconv_defined_sum()). border.h says where
 * each tap reads. Each output takes R * S loads, border look-ups and fused multiply-adds. The bits of the exact family are
 * compared with its results.
 */
#include "kernels/algorithm.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

static size_t row_floats(const gconv_problem *problem) {
  return (size_t)problem->out_width * (size_t)problem->channels;
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  float *sums = execution->workspace;
  for (int32_t p = execution->first_row; p < execution->end_row; p++) {
    for (int32_t k = 0; k < problem->filters; k++)
      for (size_t i = 0; i < row_floats(problem); i++)
        sums[(size_t)k * row_floats(problem) + i] = gconv_defined_sum(execution, k, p, (int64_t)i, true);
    gconv_store_row(execution, p, sums, row_floats(problem));
  }
  return GCONV_OK;
}

static size_t workspace_bytes(const gconv_problem *problem) {
  return row_floats(problem) * (size_t)problem->filters * sizeof(float);
}

static double cost(const gconv_problem *problem, const gconv_machine *machine) {
  double rows = (double)problem->images * problem->planes * problem->out_height;
  return gconv_cpu_ms(problem, machine, gconv_problem_flop(problem) * 5e-6, rows); /* 200 MFLOP/s */
}

const gconv_algorithm gconv_algorithm_cpu_reference = {
    .info = {"reference", "cpu", "the definition, one tap after the other: to compare with", true},
    .supports = gconv_takes_all,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
};
