/* SPDX-License-Identifier: MIT */
/* One thread's share of a batch: its device, the plan it made last, and the images that the plan writes to. */
#ifndef GCONV_BATCH_WORKER_H
#define GCONV_BATCH_WORKER_H

#include "batch/pipeline.h"

/* Set batch, threads and device, zero the rest. */
typedef struct gconv_worker {
  const gconv_batch *batch;
  int threads;          /* of its own, for reading and writing */
  gconv_device *device; /* may be shared */
  gconv_plan *plan;     /* of the last image, for the next ones that fit it; or NULL */
  gconv_image *results; /* one an output of the plan, allocated by its first execution */
  size_t result_count;
  char *explanation; /* of `plan` */
  bool explains;     /* this worker's plans are explained: it has begun the first input */
} gconv_worker;

/* Milliseconds of a clock that never runs backwards. */
double gconv_worker_clock_ms(void);

/* Carries input i all the way, and says how it went: *report (zeroed) is set but for elapsed_ms, and its errors go to
 * *errors (empty). Existing results are looked for first: if no other is wanted, the input is not read. */
void gconv_worker_process(gconv_worker *worker, size_t i, gconv_report *report, gconv_texts *errors);

/* Frees the plan and the images; the device stays. */
void gconv_worker_clear(gconv_worker *worker);

#endif
