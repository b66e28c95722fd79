/* SPDX-License-Identifier: MIT */
/* Which rows plans that are executed strip by strip make, and need. */
#include "base/memory.h"
#include "conv/plan.h"
#include "kernels/border.h"

/* Filters that reach further are not worth a window. */
enum { MOST_REACH = 1 << 16 };

int32_t gconv_filter_row_step(const gconv_plan *base) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  int64_t step = 1;
  if (!plan->run_type->execute_rows || plan->base.like.planar || plan->base.like.frames > 1 ||
      plan->options.border == GCONV_BORDER_WRAP || plan->options.range == GCONV_RANGE_MINMAX)
    return 0;
  for (size_t i = 0; i < plan->base.output_count; i++)
    if (plan->base.outputs[i].planar)
      return 0;
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    if (pass->problem.out_height != plan->passes[0].problem.out_height ||
        (int64_t)pass->problem.rows * pass->problem.dilation_y > MOST_REACH)
      return 0;
    if (pass->algorithm->row_step)
      step = gconv_common_multiple(step, pass->algorithm->row_step(&pass->problem));
    if (step > INT32_MAX / 2)
      return 0;
  }
  return (int32_t)step;
}

static void include_row(int64_t row, int32_t *begin, int32_t *end) {
  if (row < *begin)
    *begin = (int32_t)row;
  if (row >= *end)
    *end = (int32_t)row + 1;
}

/* Adds the rows that a problem reads for output rows first .. last: those inside, from end to end, and those that stand for
 * rows outside, above and below. */
static void include_problem(const gconv_problem *problem, int64_t first, int64_t last, int32_t *begin, int32_t *end) {
  int64_t height = problem->height, top = first * problem->stride_y - problem->pad_top;
  int64_t bottom = last * problem->stride_y - problem->pad_top + (int64_t)(problem->rows - 1) * problem->dilation_y;
  for (int64_t y = top; y <= bottom; y++) {
    int64_t row = gconv_border_index(problem->border, y, height);
    if (row != GCONV_OUTSIDE)
      include_row(row, begin, end);
    int64_t last_inside = (bottom < height - 1 ? bottom : height - 1) - 1;
    if (y >= 0 && y < last_inside)
      y = last_inside; /* its next is the last that is inside */
  }
}

void gconv_filter_rows_needed(const gconv_plan *base, int32_t first, int32_t count, int32_t *begin, int32_t *end) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  *begin = INT32_MAX;
  *end = 0;
  for (size_t i = 0; i < plan->pass_count; i++) {
    const gconv_pass *pass = &plan->passes[i];
    int64_t step = pass->algorithm->row_step ? pass->algorithm->row_step(&pass->problem) : 1;
    int64_t beyond = ((int64_t)first + count + step - 1) / step * step; /* tiles are made whole */
    include_problem(&pass->problem, first, beyond - 1, begin, end);
  }
  if (*begin >= *end) /* nothing but constant border: any row will do */
    *begin = 0, *end = 1;
}
