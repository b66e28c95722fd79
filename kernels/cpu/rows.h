/* SPDX-License-Identifier: MIT */
/* Loads rows for the algorithms of the CPU: samples of any type, with borders, become float32. Stores rows: sums go through
 * the epilogue and become samples. */
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

/* Returns row `p` of the output of filter k, of the execution's image and plane. */
static inline uint8_t *gconv_output_row(const gconv_execution *execution, int32_t k, int64_t p) {
  const gconv_target *target = &execution->out[k];
  return target->base + execution->image * target->image + execution->plane * target->plane + p * target->row;
}

/* Returns whether all samples of an output row lie side by side; alpha that is kept may lie elsewhere. */
static inline bool gconv_is_dense(const gconv_execution *execution) {
  int64_t size = (int64_t)gconv_type_bytes(execution->problem->out_type), channels = execution->problem->channels;
  return execution->out_pixel == channels * size && (channels == 1 || execution->out_channel == size);
}

/* gconv_input_row() returns row `y` of the execution's image and plane. gconv_level_at() returns the level of one sample. */
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
 * in the image if left <= i < right. Else it is a border pixel: its sample is in column columns[i], or is the border's
 * constant if that is GCONV_OUTSIDE. All rows of an image have the same span. */
typedef struct gconv_span {
  int64_t first, count, left, right;
  int64_t *columns; /* `count` columns, in memory of the caller; not set for pixels in the image */
} gconv_span;

/* Finds the span. Writes border pixels' columns to columns[0 .. count). */
gconv_span gconv_span_of(const gconv_problem *problem, int64_t first, int64_t count, int64_t *columns);

/* Does what gconv_load_pixels() does with a step of 1, but writes bytes. The image is u8 with an integer as border level. */
void gconv_load_bytes(const gconv_execution *execution, int64_t y, const gconv_span *span, uint8_t *row);

/* gconv_expect_load() prefetches the samples that gconv_load_pixels() will read with a step of 1. gconv_expect_store()
 * prefetches the samples that gconv_store_samples() will write, if they are floats: for integers, it would not pay.
 * Both do nothing if rows are so near each other that the processor predicts the next row by itself. */
enum { GCONV_NEAR = 1024 }; /* bytes */
void gconv_prefetch_load(const gconv_execution *execution, int64_t y, int64_t first, int64_t count);
void gconv_prefetch_store(const gconv_execution *execution, int32_t p, int64_t first, int64_t count);
static inline void gconv_expect_load(const gconv_execution *execution, int64_t y, int64_t first, int64_t count) {
  if (execution->in_row > GCONV_NEAR)
    gconv_prefetch_load(execution, y, first, count);
}
static inline void gconv_expect_store(const gconv_execution *execution, int32_t p, int64_t first, int64_t count) {
  if (execution->out->row > GCONV_NEAR && execution->problem->out_type == GCONV_F32)
    gconv_prefetch_store(execution, p, first, count);
}

/* Fills a row as wide as the image with samples of the border's level. Returns false if these cannot have that level. */
bool gconv_fill_outside(const gconv_problem *problem, void *row);

/* Returns the sum of filter k for sample i of output row p, computed as the definition says (reference.c). If it need not be
 * `exact`, it is summed in float64. */
float gconv_defined_sum(const gconv_execution *execution, int32_t k, int64_t p, int64_t i, bool exact);

/* Puts the sums of output row p through the epilogue, and stores them. Also stores alpha that is kept. sums[k * sums_stride
 * + i] is the sum of filter k for sample i of the row (q * channels + c). The sums are destroyed. */
void gconv_store_row(const gconv_execution *execution, int32_t p, float *sums, size_t sums_stride);

/* Does what gconv_store_row() does for a part of the row: `count` samples from sample `first` on. Both are whole pixels.
 * sums[k * sums_stride] is the sum of filter k for sample `first`. */
void gconv_store_samples(const gconv_execution *execution, int32_t p, size_t first, size_t count, float *sums,
                         size_t sums_stride);

/* Returns whether there is one filter, whose sums only have to be rounded to levels of u8 or u16 that lie side by side. */
bool gconv_only_rounds(const gconv_execution *execution);

/* Stores alpha that is kept in row p of the output of filter k, for the pixels of `count` samples from sample `first` on. */
void gconv_store_alpha(const gconv_execution *execution, int32_t k, int32_t p, size_t first, size_t count);
