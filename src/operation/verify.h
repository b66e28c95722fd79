/* SPDX-License-Identifier: MIT */
/* Compares outputs with the values that they should have. The operation computes these values in float64, and says how far
 * off an output may be. */
#pragma once

#include "base/threads.h"
#include "operation/operation.h"

/* The value that a sample should have, and the largest allowed error. INFINITY: the value is not known. */
typedef struct gconv_expectation {
  double value, allowed;
} gconv_expectation;

typedef struct gconv_sample_place {
  int32_t frame, y, x, channel;
} gconv_sample_place;

typedef struct gconv_comparison {
  gconv_threads *threads;
  const gconv_image *out; /* the output, which is number `output` */
  size_t output;
  double tolerance; /* replaces finite bounds, unless it is below 0 */
  size_t step;      /* compares every step-th row, and the last row */
  /* Returns the value that the output should have at a place. The output has `got` there. Called by several threads. */
  gconv_expectation (*expect)(const void *context, const gconv_sample_place *place, double got);
  const void *context;
  const gconv_scope *scope; /* the output was blended with scope->input; NULL: it was not blended */
} gconv_comparison;

/* Returns the sample as it is stored: a level, or a float. */
double gconv_sample_at(const gconv_image *image, int32_t frame, int32_t channel, int64_t y, int64_t x);

/* Compares a frame. Replaces *result if the frame is worse: a mismatch is worse than a match, and a larger error than a
 * smaller one. May fail with GCONV_NO_MEMORY. */
gconv_status gconv_compare_frame(const gconv_comparison *comparison, int32_t frame, gconv_verification *result);
gconv_status gconv_compare_frames(const gconv_comparison *comparison, gconv_verification *result); /* all of them */

/* Returns the step at which a comparison takes some `budget` operations. All rows together take `flop`. */
size_t gconv_compare_step(double budget, double flop, int32_t height);
