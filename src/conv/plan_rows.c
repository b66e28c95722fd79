/* SPDX-License-Identifier: MIT */
/* Plans executed strip by strip, on a part of the input. */
#include "base/clock.h"
#include "base/memory.h"
#include "conv/plan.h"
#include "kernels/border.h"
#include "operation/stages.h"

#include <stdlib.h>

/* ---- Which rows ---- */

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

/* ---- Execution ---- */

/* A part of an image, seen as the whole: row y of the image is where data + y * row_bytes points. */
static gconv_image seen_whole(const gconv_image *part, int32_t first_row) {
  gconv_image whole = *part;
  whole.data = (void *)((uintptr_t)part->data - (uintptr_t)first_row * part->row_bytes);
  return whole;
}

typedef struct strip {
  gconv_image in;          /* rows of the window, as convolved */
  gconv_image *raw, *seen; /* [output_count]: the strip's outputs before the stage after, and those as parts */
} strip;

static void free_strip(const gconv_filter_plan *plan, strip *s) {
  if (plan->before)
    gconv_image_free(&s->in);
  for (size_t i = 0; plan->after && s->raw && i < plan->base.output_count; i++)
    gconv_image_free(&s->raw[i]);
  free(s->raw);
  free(s->seen);
}

static gconv_status make_strip(const gconv_filter_plan *plan, const gconv_image *window, int32_t first,
                               const gconv_image *outputs, strip *s) {
  s->in = *window;
  s->raw = calloc(plan->base.output_count, sizeof *s->raw);
  s->seen = calloc(plan->base.output_count, sizeof *s->seen);
  if (!s->raw || !s->seen)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu outputs", plan->base.output_count);
  if (plan->before) {
    s->in = plan->convolved;
    s->in.height = window->height;
    GCONV_TRY(gconv_image_allocate(&s->in));
    GCONV_TRY(gconv_run_before(plan->base.device->threads, &plan->options, window, &s->in));
  }
  for (size_t i = 0; i < plan->base.output_count; i++) {
    s->raw[i] = outputs[i];
    if (plan->after) {
      s->raw[i] = plan->raw_outputs[i];
      s->raw[i].height = outputs[i].height;
      s->raw[i].data = NULL;
      GCONV_TRY(gconv_image_allocate(&s->raw[i]));
    }
    s->seen[i] = seen_whole(&s->raw[i], first);
  }
  return GCONV_OK;
}

gconv_status gconv_filter_execute_rows(gconv_plan *base, const gconv_image *window, int32_t window_row, int32_t first,
                                       gconv_image *outputs, gconv_timings *timings) {
  const gconv_filter_plan *plan = (const gconv_filter_plan *)base;
  strip s = {.raw = NULL};
  double start = gconv_now_ms();
  gconv_status status = make_strip(plan, window, first, outputs, &s);
  timings->prepare_ms += gconv_now_ms() - start;
  if (status == GCONV_OK) {
    gconv_image in = seen_whole(&s.in, window_row);
    status = plan->run_type->execute_rows(plan->run, &in, s.seen, first, first + outputs[0].height, timings);
  }
  start = gconv_now_ms();
  for (size_t i = 0; i < plan->base.output_count && plan->after && status == GCONV_OK; i++)
    status = gconv_run_after(plan->base.device->threads, &plan->options, &s.raw[i], &outputs[i]);
  free_strip(plan, &s);
  timings->finish_ms += gconv_now_ms() - start;
  return status;
}
