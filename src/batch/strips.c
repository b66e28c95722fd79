/* SPDX-License-Identifier: MIT */
#include "base/memory.h"
#include "batch/cost.h"

#include <math.h>

/* Returns the bytes of one row of an image, with all its channels. */
static size_t row_bytes_of(const gconv_image *image) {
  return (size_t)image->width * (size_t)image->channels * gconv_type_bytes(image->type);
}

size_t gconv_strip_output_bytes(const gconv_plan *plan) {
  size_t bytes = 0;
  for (size_t i = 0; i < gconv_plan_outputs(plan); i++)
    bytes += row_bytes_of(gconv_plan_output_header(plan, i));
  return bytes;
}

/* A strip has the rows that fit into STRIP_BYTES, but at least twice the input rows that one output row needs. So few rows
 * are copied for the next strip. */
int32_t gconv_strip_rows(const gconv_plan *plan, int64_t preferred) {
  const size_t STRIP_BYTES = (size_t)3 << 19; /* bytes of the input and the outputs of a strip */
  int64_t step = gconv_plan_row_step(plan), height = gconv_plan_output_header(plan, 0)->height;
  int32_t begin, end;
  if (plan->operation->type->batches) /* the number of rows for which the plan was made */
    return (int32_t)(step < height ? step : height);
  gconv_plan_rows_needed(plan, 0, 1, &begin, &end);
  int64_t rows = (int64_t)(STRIP_BYTES / (row_bytes_of(&plan->like) + gconv_strip_output_bytes(plan)));
  int64_t least = 2 * (int64_t)(end - begin), both = gconv_common_multiple(step, preferred);
  rows = rows > least ? rows : least;
  step = both <= rows + rows / 2 ? both : step;
  rows = (rows + step - 1) / step * step;
  return rows < height ? (int32_t)rows : (int32_t)height;
}

/* With one thread: the current window, and the one before it. With several threads: a window is filtered, one is ready, and
 * one is filled. The ring of strips has three parts, each of two steps for each thread of a writer: one part is written
 * while the others are filled. For very large strips, two windows and two strips suffice. */
gconv_depth gconv_strip_depth(int threads, int32_t writer_step, int32_t strip, uint64_t strip_bytes) {
  enum { LEAST_SLOTS = 4, MOST_SLOTS = 4096 };
  const uint64_t large = (uint64_t)16 << 20;
  if (threads == 1)
    return (gconv_depth){2, 1};
  if (strip_bytes > large)
    return (gconv_depth){2, 2};
  int64_t third = (2 * (int64_t)threads * writer_step + strip - 1) / strip, slots = 3 * third;
  return (gconv_depth){GCONV_MOST_WINDOWS, slots < LEAST_SLOTS  ? LEAST_SLOTS
                                           : slots < MOST_SLOTS ? (int32_t)slots
                                                                : MOST_SLOTS};
}

double gconv_strip_bytes(const gconv_plan *plan, size_t writers, int threads) {
  const uint64_t step_bytes = (uint64_t)1 << 20; /* the most bytes of a step of a writer */
  const double least = 5 << 20; /* of a writer, for each thread: strips of PNG, filtered and compressed, and waiting rows */
  int32_t strip = gconv_strip_rows(plan, 1), begin, end;
  uint64_t row_bytes = gconv_strip_output_bytes(plan);
  gconv_plan_rows_needed(plan, 0, strip, &begin, &end);
  gconv_depth d = gconv_strip_depth(threads, (int32_t)(step_bytes / row_bytes) + 1, strip, (uint64_t)strip * row_bytes);
  uint64_t rows = (uint64_t)d.strips * (uint64_t)strip, height = (uint64_t)gconv_plan_get_info(plan)->out_height;
  uint64_t windows = (uint64_t)d.windows * (uint64_t)(end - begin) * row_bytes_of(&plan->like);
  double writer = fmax(least, 6.0 * (double)row_bytes / (double)gconv_plan_outputs(plan));
  gconv_need need = {0};
  plan->type->find_need(plan, &need);
  return (double)(windows + (rows < height ? rows : height) * row_bytes) + (double)writers * writer * threads + need.fixed +
         need.rows + need.row * strip;
}
