/* SPDX-License-Identifier: MIT */
/* One thread's share of a batch: its device, the plans it made last, and the images that they write to. */
#ifndef GCONV_BATCH_WORKER_H
#define GCONV_BATCH_WORKER_H

#include "batch/budget.h"
#include "batch/devices.h"
#include "batch/plans.h"

#include <semaphore.h>

/* A plan and what belongs to it. */
typedef struct gconv_planned {
  gconv_plan *plan;     /* NULL: none */
  gconv_image *results; /* one an output of the plan, allocated by its first execution */
  size_t result_count;
  char *explanation;
  char remark[512]; /* why it is on another device than the run, or "" */
} gconv_planned;

/* Set batch, threads, devices, plans, budget, turns and index, zero the rest. */
typedef struct gconv_worker {
  const gconv_batch *batch;
  int threads;               /* of its own, for reading and writing */
  gconv_devices *devices;    /* of all workers */
  gconv_plans *plans;        /* likewise */
  gconv_budget *budget;      /* likewise */
  sem_t *turns;              /* likewise: who has one is at work on a processor */
  uint64_t held;             /* bytes of it */
  int index;                 /* of this one */
  gconv_device *device;      /* from `devices`, once it has waited for it; may be shared */
  gconv_image input;         /* the last one, whose memory the next one takes if it has the same shape */
  gconv_planned now, before; /* of the last image, and of the last one that had another shape: photos lie or stand */
  char refusal[512];         /* why a GPU did not decode the last image that it was to */
  bool explains;             /* this worker's plans are explained: it has begun the first input */
} gconv_worker;

/* Carries input i all the way, and says how it went: *report (zeroed) is set but for elapsed_ms, and its errors go to
 * *errors (empty). Existing results are looked for first: if no other is wanted, the input is not read. Fails only where
 * there is no device: then nothing is reported. */
gconv_status gconv_worker_process(gconv_worker *worker, size_t i, gconv_report *report, gconv_texts *errors,
                                  gconv_message *message);

#endif
