/* SPDX-License-Identifier: MIT */
#include "conv/rows.h"
#include "base/cpu.h"

#include <string.h>

/* ---- Loading ---- */

/* `count` samples as levels. */
GCONV_INLINE void widen_body(gconv_type type, const void *samples, size_t count, float *restrict levels) {
  if (type == GCONV_U8)
    for (size_t i = 0; i < count; i++)
      levels[i] = ((const uint8_t *)samples)[i];
  else if (type == GCONV_U16)
    for (size_t i = 0; i < count; i++)
      levels[i] = ((const uint16_t *)samples)[i];
  else
    memcpy(levels, samples, count * sizeof *levels);
}
GCONV_VECTORIZED(widen, (gconv_type type, const void *samples, size_t count, float *restrict levels),
                 (type, samples, count, levels))

static float level_at(gconv_type type, const void *samples, int64_t index) {
  if (type == GCONV_U8)
    return ((const uint8_t *)samples)[index];
  if (type == GCONV_U16)
    return ((const uint16_t *)samples)[index];
  return ((const float *)samples)[index];
}

size_t gconv_row_floats(const gconv_problem *problem) {
  return ((size_t)gconv_reach(problem) * (size_t)problem->channels + 32 + 15) / 16 * 16;
}

static const uint8_t *input_row(const gconv_execution *execution, int64_t y) {
  return execution->in + execution->image * execution->in_image + execution->plane * execution->in_plane +
         y * execution->in_row;
}

/* The pixels first .. end - 1 of a row (counted as gconv_load_row() does), one by one: for the borders. */
static void load_border(const gconv_problem *problem, const void *samples, int64_t first, int64_t end, float *row) {
  int32_t channels = problem->channels;
  for (int64_t i = first; i < end; i++) {
    int64_t x = gconv_border_index(problem->border, i - problem->pad_left, problem->width);
    for (int32_t c = 0; c < channels; c++)
      row[i * channels + c] =
          x == GCONV_OUTSIDE ? problem->border_level : level_at(problem->in_type, samples, x * channels + c);
  }
}

void gconv_load_row(const gconv_execution *execution, int64_t y, float *row) {
  const gconv_problem *problem = execution->problem;
  int64_t reach = gconv_reach(problem), channels = problem->channels;
  y = gconv_border_index(problem->border, y, problem->height);
  if (y == GCONV_OUTSIDE) {
    for (int64_t i = 0; i < reach * channels; i++)
      row[i] = problem->border_level;
    return;
  }
  const uint8_t *samples = input_row(execution, y);
  int64_t left = problem->pad_left < reach ? problem->pad_left : reach;
  int64_t right = (int64_t)problem->pad_left + problem->width < reach ? (int64_t)problem->pad_left + problem->width : reach;
  load_border(problem, samples, 0, left, row);
  if (right > left)
    widen(problem->in_type, samples, (size_t)((right - left) * channels), row + left * channels);
  load_border(problem, samples, right, reach, row);
}

/* ---- Storing ---- */

GCONV_INLINE void respond_body(float *restrict sums, size_t count, float divisor, float bias) {
  for (size_t i = 0; i < count; i++)
    sums[i] = gconv_response(sums[i], divisor, bias);
}
GCONV_VECTORIZED(respond, (float *restrict sums, size_t count, float divisor, float bias), (sums, count, divisor, bias))

/* One specialisation for each way to combine. */
GCONV_INLINE void combine_row(gconv_combine how, float *restrict sums, size_t stride, int32_t filters, size_t count) {
  for (size_t i = 0; i < count; i++) {
    float combined = gconv_combine_first(how, sums[i]);
    for (int32_t k = 1; k < filters; k++)
      combined = gconv_combine_next(how, combined, sums[(size_t)k * stride + i]);
    sums[i] = gconv_combine_last(how, combined);
  }
}
GCONV_INLINE void combine_body(gconv_combine how, float *restrict sums, size_t stride, int32_t filters, size_t count) {
  if (how == GCONV_COMBINE_MAGNITUDE)
    combine_row(GCONV_COMBINE_MAGNITUDE, sums, stride, filters, count);
  else if (how == GCONV_COMBINE_SUM)
    combine_row(GCONV_COMBINE_SUM, sums, stride, filters, count);
  else
    combine_row(GCONV_COMBINE_MAX, sums, stride, filters, count);
}
GCONV_VECTORIZED(combine, (gconv_combine how, float *restrict sums, size_t stride, int32_t filters, size_t count),
                 (how, sums, stride, filters, count))

GCONV_INLINE void finish_body(const gconv_epilogue *epilogue, float *restrict values, size_t count) {
  const gconv_epilogue local = *epilogue; /* so that it is known not to change */
  for (size_t i = 0; i < count; i++)
    values[i] = gconv_finish(values[i], &local);
}
GCONV_VECTORIZED(finish, (const gconv_epilogue *epilogue, float *restrict values, size_t count), (epilogue, values, count))

GCONV_INLINE void narrow_body(gconv_type type, const float *restrict values, size_t count, void *restrict samples) {
  if (type == GCONV_U8)
    for (size_t i = 0; i < count; i++)
      ((uint8_t *)samples)[i] = (uint8_t)gconv_to_level(values[i], 255.0f);
  else if (type == GCONV_U16)
    for (size_t i = 0; i < count; i++)
      ((uint16_t *)samples)[i] = (uint16_t)gconv_to_level(values[i], 65535.0f);
  else
    memcpy(samples, values, count * sizeof *values);
}
GCONV_VECTORIZED(narrow, (gconv_type type, const float *restrict values, size_t count, void *restrict samples),
                 (type, values, count, samples))

static void store_sample(gconv_type type, float value, uint8_t *to) {
  if (type == GCONV_U8)
    *to = (uint8_t)gconv_to_level(value, 255.0f);
  else if (type == GCONV_U16)
    *(uint16_t *)(void *)to = (uint16_t)gconv_to_level(value, 65535.0f);
  else
    *(float *)(void *)to = value;
}

/* Stores one output's row; values are finished, q * channels + c. */
static void store_values(const gconv_execution *execution, const float *values, uint8_t *to) {
  const gconv_problem *problem = execution->problem;
  int32_t channels = problem->channels, stored = channels - problem->keep_alpha;
  int64_t size = (int64_t)gconv_type_bytes(problem->out_type);
  bool dense = execution->out_pixel == channels * size && (channels == 1 || execution->out_channel == size);
  if (dense) { /* alpha that is kept is written over what stands in its place */
    narrow(problem->out_type, values, (size_t)problem->out_width * (size_t)channels, to);
    return;
  }
  for (int64_t q = 0; q < problem->out_width; q++)
    for (int64_t c = 0; c < stored; c++)
      store_sample(problem->out_type, values[q * channels + c], to + q * execution->out_pixel + c * execution->out_channel);
}

static void store_alpha(const gconv_execution *execution, int32_t p, uint8_t *to) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  int64_t y = (int64_t)p * problem->stride_y - problem->pad_top + problem->anchor_y;
  y = gconv_border_index(problem->border, y, problem->height);
  const uint8_t *samples = y == GCONV_OUTSIDE ? NULL : input_row(execution, y);
  for (int64_t q = 0; q < problem->out_width; q++) {
    int64_t x =
        gconv_border_index(problem->border, q * problem->stride_x - problem->pad_left + problem->anchor_x, problem->width);
    float alpha = problem->border_level;
    if (samples && x != GCONV_OUTSIDE)
      alpha = level_at(problem->in_type, samples, x * problem->channels + problem->channels - 1);
    alpha = gconv_scale(alpha, epilogue->alpha_scale, epilogue->alpha_scale_low, 0.0f);
    store_sample(problem->out_type, alpha, to + q * execution->out_pixel + execution->out_alpha);
  }
}

void gconv_store_row(const gconv_execution *execution, int32_t p, float *sums, size_t sums_stride) {
  const gconv_problem *problem = execution->problem;
  const float *divisors = gconv_divisors(problem, execution->weights), *biases = gconv_biases(problem, execution->weights);
  size_t count = (size_t)problem->out_width * (size_t)problem->channels;
  for (int32_t k = 0; k < problem->filters; k++)
    if (divisors[k] != 1.0f || biases[k] != 0.0f)
      respond(sums + (size_t)k * sums_stride, count, divisors[k], biases[k]);
  int32_t outputs = problem->filters;
  if (gconv_is_combined(problem)) {
    combine(problem->epilogue.combine, sums, sums_stride, problem->filters, count);
    outputs = 1;
  }
  for (int32_t k = 0; k < outputs; k++) {
    float *values = sums + (size_t)k * sums_stride;
    const gconv_target *target = &execution->out[k];
    uint8_t *row = target->base + execution->image * target->image + execution->plane * target->plane + p * target->row;
    finish(&problem->epilogue, values, count);
    store_values(execution, values, row);
    if (problem->keep_alpha && (k == 0 || problem->epilogue.combine == GCONV_COMBINE_NONE))
      store_alpha(execution, p, row);
  }
}
