/* SPDX-License-Identifier: MIT */
/* Comparing outputs with what they should be in float64; that, and how far off is allowed, is told by the operation. */
#ifndef GCONV_OPERATION_VERIFY_H
#define GCONV_OPERATION_VERIFY_H

#include "base/threads.h"
#include "operation/operation.h"

/* A value, and how far a correct program may be from it; INFINITY: nothing can be said of it. */
typedef struct gconv_expectation {
  double value, allowed;
} gconv_expectation;

/* The place of a sample. */
typedef struct gconv_sample_place {
  int32_t frame, y, x, channel;
} gconv_sample_place;

typedef struct gconv_comparison {
  gconv_threads *threads;
  const gconv_image *out; /* the output number `output` */
  size_t output;
  double tolerance; /* in place of finite bounds, unless it is below 0 */
  size_t step;      /* every step-th row is compared, and the last */
  /* What the output, which is `got` at this place, should be there. Called by several threads. */
  gconv_expectation (*expect)(const void *context, const gconv_sample_place *place, double got);
  const void *context;
  const gconv_scope *scope; /* with its input: the output was blended with that; NULL: it is as the operation made it */
} gconv_comparison;

/* The sample as it is stored: a level, or a float. */
double gconv_sample_at(const gconv_image *image, int32_t frame, int32_t channel, int64_t y, int64_t x);

/* Compares a frame, and puts what it finds into *result if that is worse than what is there: a mismatch is worse than a
 * match, and a larger error than a smaller one. GCONV_NO_MEMORY. */
gconv_status gconv_compare_frame(const gconv_comparison *comparison, int32_t frame, gconv_verification *result);

#endif
