/* SPDX-License-Identifier: MIT */
/*
 * reference: the definition, written as it is defined.
 *
 * One output sample after the other, one tap after the other; border.h says where each tap reads. Nothing is loaded ahead,
 * and nothing is kept: R * S loads, border look-ups and fused multiply-adds for each output. It is here to be read, and to
 * compare the bits of the exact family with.
 */
#include "kernels/algorithm.h"
#include "kernels/cpu/rows.h"
#include "tile.h"

/* The level at row y, column x, channel c of the execution's image and plane. The place may be outside the image. */
static float sample_at(const gconv_execution *execution, int64_t y, int64_t x, int32_t c) {
  const gconv_problem *problem = execution->problem;
  y = gconv_border_index(problem->border, y, problem->height);
  x = gconv_border_index(problem->border, x, problem->width);
  if (y == GCONV_OUTSIDE || x == GCONV_OUTSIDE)
    return problem->border_level;
  return gconv_level_at(problem->in_type, gconv_input_row(execution, y), x * problem->channels + c);
}

/* The sum of filter k for output row p, column q, channel c. */
static float sum_at(const gconv_execution *execution, int32_t k, int64_t p, int64_t q, int32_t c) {
  const gconv_problem *problem = execution->problem;
  const float *tap = execution->weights + (int64_t)k * problem->rows * problem->columns;
  int64_t top = p * problem->stride_y - problem->pad_top, left = q * problem->stride_x - problem->pad_left;
  float sum = 0.0f;
  for (int64_t r = 0; r < problem->rows; r++)
    for (int64_t s = 0; s < problem->columns; s++, tap++)
      if (!gconv_is_mark(*tap))
        sum = fmaf(*tap, sample_at(execution, top + r * problem->dilation_y, left + s * problem->dilation_x, c), sum);
  return sum;
}

static size_t row_floats(const gconv_problem *problem) {
  return (size_t)problem->out_width * (size_t)problem->channels;
}

static gconv_status execute(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  float *sums = execution->workspace;
  for (int32_t p = execution->first_row; p < execution->end_row; p++) {
    for (int32_t k = 0; k < problem->filters; k++)
      for (int64_t q = 0; q < problem->out_width; q++)
        for (int32_t c = 0; c < problem->channels; c++)
          sums[(size_t)k * row_floats(problem) + (size_t)(q * problem->channels + c)] = sum_at(execution, k, p, q, c);
    gconv_store_row(execution, p, sums, row_floats(problem));
  }
  return GCONV_OK;
}

static const char *supports(const gconv_problem *problem) {
  (void)problem;
  return NULL;
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
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
};
