/* SPDX-License-Identifier: MIT */
#include "batch/room.h"
#include "batch/stream.h"

#include <stdlib.h>
#include <string.h>

static uint64_t image_bytes(const gconv_image *image, gconv_type type) {
  return (uint64_t)image->frames * (uint64_t)image->channels * (uint64_t)image->height * (uint64_t)image->width *
         gconv_type_bytes(type);
}

/* Bytes of the images that are kept because the next ones may be like them. */
static uint64_t kept_bytes(const gconv_worker *worker) {
  const gconv_planned *kept[] = {&worker->now, &worker->before};
  uint64_t bytes = worker->input.data ? image_bytes(&worker->input, worker->input.type) : 0;
  for (size_t i = 0; i < 2; i++)
    for (size_t k = 0; k < kept[i]->result_count; k++)
      if (kept[i]->results[k].data)
        bytes += image_bytes(&kept[i]->results[k], kept[i]->results[k].type);
  return bytes;
}

uint64_t gconv_worker_whole_bytes(const gconv_worker *worker, const gconv_row_reader *reader) {
  const uint64_t workspace = (uint64_t)4 << 20; /* of a thread */
  const uint64_t slabs = (uint64_t)2 << 20;     /* pinned, of a worker whose image may be a GPU's */
  const gconv_image *in = gconv_row_reader_header(reader);
  const gconv_batch *batch = worker->batch;
  const gconv_options *options = &batch->options;
  gconv_type type = gconv_batch_output_type(options, batch->outputs->format, in->type);
  uint64_t strides = (uint64_t)options->stride_y * (uint64_t)options->stride_x;
  bool one = options->combine != GCONV_COMBINE_NONE && options->combine != GCONV_COMBINE_STACK;
  uint64_t results = one ? 1 : batch->filters->count;
  bool staged = options->linear || options->alpha == GCONV_ALPHA_PREMULTIPLY || options->range == GCONV_RANGE_MINMAX;
  uint64_t floats = staged ? image_bytes(in, GCONV_F32) : 0;
  return image_bytes(in, in->type) + floats + (image_bytes(in, type) + floats) / strides * results +
         gconv_row_reader_bytes(reader) + (uint64_t)worker->threads * workspace +
         gconv_stream_writer_bytes(worker->threads) + (strcmp(batch->device, "cpu") == 0 ? 0 : slabs);
}

/* Frees all but the plan, and returns that. */
static gconv_plan *empty(gconv_planned *planned) {
  gconv_plan *plan = planned->plan;
  for (size_t k = 0; k < planned->result_count; k++)
    gconv_image_free(&planned->results[k]);
  free(planned->results);
  free(planned->explanation);
  *planned = (gconv_planned){0};
  return plan;
}

void gconv_worker_drop(gconv_worker *worker, gconv_planned *planned) {
  gconv_plans_drop(worker->plans, empty(planned));
}

/* Frees the plans and the images; the devices stay. */
static void clear(gconv_worker *worker) {
  gconv_worker_drop(worker, &worker->now);
  gconv_worker_drop(worker, &worker->before);
  gconv_image_free(&worker->input);
  gconv_budget_give_back(worker->budget, worker->held);
  worker->held = 0;
}

static void leave_plans(gconv_worker *worker) {
  gconv_plans_leave(worker->plans, empty(&worker->now));
  gconv_plans_leave(worker->plans, empty(&worker->before));
}

void gconv_worker_leave(gconv_worker *worker) {
  leave_plans(worker);
  clear(worker);
}

void gconv_worker_yield(gconv_worker *worker) {
  if (!gconv_plans_are_awaited(worker->plans))
    return;
  leave_plans(worker);
  gconv_worker_give_back(worker);
}

void gconv_worker_take_turn(gconv_worker *worker) {
  while (sem_wait(worker->turns) != 0) { /* a signal came */
  }
}

void gconv_worker_give_turn(gconv_worker *worker) {
  sem_post(worker->turns);
}

gconv_status gconv_worker_admit(gconv_worker *worker, uint64_t bytes, const char *reason, gconv_message *message) {
  uint64_t most = gconv_budget_bytes(worker->budget), wanted = bytes + kept_bytes(worker);
  if (worker->batch->memory > 0 && bytes > most)
    return gconv_budget_refuse((double)bytes, (double)most, "rows", reason, message);
  if (wanted <= worker->held)
    return GCONV_OK;
  if (gconv_budget_try(worker->budget, wanted - worker->held)) {
    worker->held = wanted;
    return GCONV_OK;
  }
  clear(worker);
  gconv_worker_give_turn(worker); /* a worker that will give memory back may wait for it */
  gconv_budget_wait(worker->budget, bytes);
  gconv_worker_take_turn(worker);
  worker->held = bytes;
  return GCONV_OK;
}

void gconv_worker_give_back(gconv_worker *worker) {
  uint64_t kept = kept_bytes(worker);
  if (kept >= worker->held)
    return;
  gconv_budget_give_back(worker->budget, worker->held - kept);
  worker->held = kept;
}
