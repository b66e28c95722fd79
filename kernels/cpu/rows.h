/* SPDX-License-Identifier: MIT */
/* Rows for the algorithms of the CPU: from samples of any type, with borders, to float32; and back through the epilogue. */
#pragma once

#include "kernels/algorithm.h"

static inline int64_t gconv_divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static inline size_t gconv_round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

static inline int64_t gconv_clamp(int64_t value, int64_t least, int64_t most) {
  return value < least ? least : value > most ? most : value;
}

/* Row `p` of the output of filter k, of the execution's image and plane. */
static inline uint8_t *gconv_output_row(const gconv_execution *execution, int32_t k, int64_t p) {
  const gconv_target *target = &execution->out[k];
  return target->base + execution->image * target->image + execution->plane * target->plane + p * target->row;
}

/* Returns whether all samples of an output row lie side by side; alpha that is kept may lie elsewhere. */
static inline bool gconv_is_dense(const gconv_execution *execution) {
  int64_t size = (int64_t)gconv_type_bytes(execution->problem->out_type), channels = execution->problem->channels;
  return execution->out_pixel == channels * size && (channels == 1 || execution->out_channel == size);
}

/* Row `y` of the execution's image and plane, and the level of one of its samples. */
static inline const uint8_t *gconv_input_row(const gconv_execution *execution, int64_t y) {
  return execution->in + execution->image * execution->in_image + execution->plane * execution->in_plane +
         y * execution->in_row;
}
static inline float gconv_level_at(gconv_type type, const void *samples, int64_t index) {
  if (type == GCONV_U8)
    return ((const uint8_t *)samples)[index];
  if (type == GCONV_U16)
    return ((const uint16_t *)samples)[index];
  return ((const float *)samples)[index];
}

/* Writes `count` pixels of row `y` of the execution's image and plane as float32 levels: from column `first` on, `step`
 * columns apart. The row and the columns may be outside the image. */
void gconv_load_pixels(const gconv_execution *execution, int64_t y, int64_t first, int64_t step, int64_t count, float *row);

/* `count` pixels of a row, from column `first` of the image on, some of which may be outside of it. Pixel i of the span is
 * in the image if left <= i < right. Else the border takes its sample from column columns[i], or, if that is GCONV_OUTSIDE,
 * is the border's constant. All rows of an image have the same span. */
typedef struct gconv_span {
  int64_t first, count, left, right;
  int64_t *columns; /* `count` of them, the caller's memory; those of pixels in the image are not set */
} gconv_span;

/* Finds the span, and fills columns[0 .. count). */
gconv_span gconv_span_of(const gconv_problem *problem, int64_t first, int64_t count, int64_t *columns);

/* As gconv_load_pixels(), as bytes, for u8 images whose border level is an integer, and with a step of 1. */
void gconv_load_bytes(const gconv_execution *execution, int64_t y, const gconv_span *span, uint8_t *row);

/* Prefetches what gconv_load_pixels() with a step of 1 will read, and what gconv_store_samples() will write, unless rows are
 * so near each other that the processor predicts the next one by itself. */
enum { GCONV_NEAR = 1024 }; /* bytes */
void gconv_prefetch_load(const gconv_execution *execution, int64_t y, int64_t first, int64_t count);
void gconv_prefetch_store(const gconv_execution *execution, int32_t p, int64_t first, int64_t count);
static inline void gconv_expect_load(const gconv_execution *execution, int64_t y, int64_t first, int64_t count) {
  if (execution->in_row > GCONV_NEAR)
    gconv_prefetch_load(execution, y, first, count);
}
static inline void gconv_expect_store(const gconv_execution *execution, int32_t p, int64_t first, int64_t count) {
  if (execution->out->row > GCONV_NEAR)
    gconv_prefetch_store(execution, p, first, count);
}

/* The sum of filter k for sample i of output row p by the definition, but in float64 if it need not be exact (reference.c).
 */
float gconv_defined_sum(const gconv_execution *execution, int32_t k, int64_t p, int64_t i, bool exact);

/* Puts the sums of output row p through the epilogue and stores them, and alpha that is kept. sums[k * sums_stride + i] is
 * the sum of filter k for sample i of the row (q * channels + c). The sums are destroyed. */
void gconv_store_row(const gconv_execution *execution, int32_t p, float *sums, size_t sums_stride);

/* The same for a part of the row: `count` samples from sample `first` on; both are whole pixels. sums[k * sums_stride] is
 * that of filter k for sample `first`. */
void gconv_store_samples(const gconv_execution *execution, int32_t p, size_t first, size_t count, float *sums,
                         size_t sums_stride);

/* Returns whether all that happens to the one filter's sums is that they are rounded to levels, which lie side by side. */
bool gconv_only_rounds(const gconv_execution *execution);

/* Stores the alpha that is kept of `count` samples from sample `first` on, in the output of filter k, row p. */
void gconv_store_alpha(const gconv_execution *execution, int32_t k, int32_t p, size_t first, size_t count);
