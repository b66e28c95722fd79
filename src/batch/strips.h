/* SPDX-License-Identifier: MIT */
/* How an image that goes by rows is cut into strips, and the memory that this takes. */
#ifndef GCONV_BATCH_STRIPS_H
#define GCONV_BATCH_STRIPS_H

#include "operation/operation.h"

/* Bytes of one row of all outputs. */
size_t gconv_strip_output_bytes(const gconv_plan *plan);
/* Output rows of a strip: a multiple of the plan's step, and, if that does not make it much larger, of `preferred`, which
 * writers want. */
int32_t gconv_strip_rows(const gconv_plan *plan, int64_t preferred);

/* How many input windows and output strips are in memory at a time. */
typedef struct gconv_depth {
  int32_t windows, strips;
} gconv_depth;

enum { GCONV_MOST_WINDOWS = 3 };

/* `writer_step`: rows that a writer takes at a time; `strip`: rows of a strip, of `strip_bytes` in all outputs. */
gconv_depth gconv_strip_depth(int threads, int32_t writer_step, int32_t strip, uint64_t strip_bytes);
/* Bytes that a plan for rows, or its outline, takes with so many writers and threads. */
double gconv_strip_bytes(const gconv_plan *plan, size_t writers, int threads);

#endif
