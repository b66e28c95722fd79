/* SPDX-License-Identifier: MIT */
#include "operation/verify.h"
#include "base/element.h"
#include "base/memory.h"
#include "base/status.h"

#include <math.h>

double gconv_sample_at(const gconv_image *image, int32_t frame, int32_t channel, int64_t y, int64_t x) {
  size_t plane = image->planar ? (size_t)frame * (size_t)image->channels + (size_t)channel : (size_t)frame;
  size_t index = image->planar ? (size_t)x : (size_t)x * (size_t)image->channels + (size_t)channel;
  const void *row = gconv_row_at(image, plane, y);
  return image->type == GCONV_I16 ? ((const int16_t *)row)[index] : gconv_stored_at(image->type, row, index);
}

double gconv_scope_weight(const gconv_scope *scope, int64_t y, int64_t x) {
  if (!scope)
    return 1;
  if (y < scope->top || y >= scope->bottom || x < scope->left || x >= scope->right)
    return 0;
  const gconv_image *mask = scope->mask;
  return mask ? gconv_sample_at(mask, 0, 0, y, x) / gconv_level_of_white(mask->type) : 1;
}

static bool is_worse(const gconv_verification *a, const gconv_verification *b) {
  bool a_bad = a->max_error > a->allowed, b_bad = b->max_error > b->allowed;
  return a_bad == b_bad ? a->max_error > b->max_error : a_bad;
}

/* Merges *one into *all, which keeps the worse result. */
static void merge(const gconv_verification *one, gconv_verification *all) {
  uint64_t compared = all->compared + one->compared;
  double most_allowed = fmax(all->most_allowed, one->most_allowed);
  if (all->compared == 0 || is_worse(one, all))
    *all = *one;
  all->compared = compared;
  all->most_allowed = most_allowed;
}

/* Returns the expected sample after blending: weight * v + (1 - weight) * input. */
static gconv_expectation blended(const gconv_scope *scope, gconv_type type, const gconv_sample_place *at, double weight,
                                 gconv_expectation v) {
  bool none = (float)v.value == (float)scope->input->nodata || isnan(v.value);
  if (scope->input->has_nodata && v.allowed == 0 && none)
    return v; /* samples of no data are not blended */
  if (scope->input->has_nodata && fabs(v.value - scope->input->nodata) <= v.allowed)
    return (gconv_expectation){0, INFINITY}; /* a result may have this value by chance */
  double value = weight * v.value + (1 - weight) * gconv_sample_at(scope->input, at->frame, at->channel, at->y, at->x);
  double rounding = type == GCONV_F32 ? fabs(value) * 0x1p-23 : 0.5;
  return (gconv_expectation){value, weight * v.allowed + rounding};
}

static gconv_verification compare_sample(const gconv_comparison *c, const gconv_sample_place *at) {
  double got = gconv_sample_at(c->out, at->frame, at->channel, at->y, at->x);
  double weight = gconv_scope_weight(c->scope, at->y, at->x);
  gconv_expectation v = {0, 0};
  if (weight > 0)
    v = c->expect(c->context, at, got);
  if (weight > 0 && weight < 1)
    v = blended(c->scope, c->out->type, at, weight, v);
  if (weight == 0)
    v.value = gconv_sample_at(c->scope->input, at->frame, at->channel, at->y, at->x);
  bool certain = isfinite(v.allowed);
  gconv_verification one = {.output = c->output,
                            .frame = at->frame,
                            .y = at->y,
                            .x = at->x,
                            .channel = at->channel,
                            .got = got,
                            .expected = v.value,
                            .compared = 1};
  if (!certain)
    return one;
  one.allowed = one.most_allowed = c->tolerance >= 0 && weight > 0 ? c->tolerance : v.allowed;
  one.max_error = fabs(got - v.value);
  if (isnan(one.max_error)) /* no error if both are NaN, or the same infinity */
    one.max_error = isnan(got) == isnan(v.value) ? 0 : INFINITY;
  return one;
}

/* Rows of a frame. */
typedef struct row_job {
  const gconv_comparison *comparison;
  int32_t frame;
  gconv_verification *worst; /* worst verification of each row that is compared */
} row_job;

static void compare_row(void *context, size_t turn, int seat) {
  const row_job *job = context;
  const gconv_image *out = job->comparison->out;
  size_t row = turn * job->comparison->step, last = (size_t)out->height - 1;
  gconv_verification worst = {0};
  gconv_sample_place at = {.frame = job->frame, .y = (int32_t)(row < last ? row : last)};
  for (at.x = 0; at.x < out->width; at.x++)
    for (at.channel = 0; at.channel < out->channels; at.channel++) {
      gconv_verification one = compare_sample(job->comparison, &at);
      merge(&one, &worst);
    }
  job->worst[turn] = worst;
}

gconv_status gconv_compare_frame(const gconv_comparison *comparison, int32_t frame, gconv_verification *result) {
  size_t rows = ((size_t)comparison->out->height - 1 + comparison->step - 1) / comparison->step + 1;
  GCONV_FREED gconv_verification *worst = calloc(rows, sizeof *worst);
  GCONV_NEED_MEMORY(worst, "no memory to verify with");
  row_job job = {comparison, frame, worst};
  gconv_threads_run(comparison->threads, rows, compare_row, &job);
  for (size_t i = 0; i < rows; i++)
    merge(&worst[i], result);
  return GCONV_OK;
}

gconv_status gconv_compare_frames(const gconv_comparison *comparison, gconv_verification *result) {
  for (int32_t frame = 0; frame < comparison->out->frames; frame++)
    GCONV_TRY(gconv_compare_frame(comparison, frame, result));
  return GCONV_OK;
}

size_t gconv_compare_step(double budget, double flop, int32_t height) {
  const double rows = budget / (flop / height);
  return rows >= height ? 1 : (size_t)(height / fmax(rows, 3)) + 1;
}
