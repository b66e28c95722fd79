/* SPDX-License-Identifier: MIT */
/* Results that are written as they come from a GPU: rows, or the PNG that it makes of them. */
#include "batch/clock.h"
#include "batch/estimate.h"
#include "batch/room.h"
#include "batch/task.h"

#include <stdlib.h>

/* All files are open at once, and what each needs besides its rows is to fit in --memory. What several threads compress,
 * they do better as a whole. */
uint64_t gconv_task_parts_bytes(const gconv_worker *worker, const gconv_task *task, uint64_t whole) {
  uint64_t bytes = whole + (task->count - 1) * gconv_stream_writer_bytes(worker->threads);
  bool may = gconv_estimate_may_come_in_parts(worker->batch, task->paths, task->count) &&
             (gconv_estimate_gpu_makes_png(worker->batch) || worker->threads == 1) &&
             (worker->batch->memory == 0 || bytes <= gconv_budget_bytes(worker->budget));
  return may ? bytes : 0;
}

/* When results come: files are wanted for them, and a processor, if another had it. */
static int32_t begin_results(void *user) {
  gconv_carriage *c = user;
  int32_t step = 1;
  c->begun = true;
  if (c->waits)
    gconv_worker_take_turn(c->worker);
  gconv_carriage_open(c);
  for (size_t n = 0; n < c->task->count; n++) {
    int32_t own = c->stream.writers[n] ? gconv_row_writer_step(c->stream.writers[n]) : 1;
    step = own > step ? own : step;
  }
  return step;
}

static void take_part(void *user, size_t output, const gconv_part *part) {
  gconv_carriage *c = user;
  gconv_row_writer **writer = &c->stream.writers[output];
  double begin = gconv_batch_clock_ms();
  if (*writer && gconv_row_writer_write_part(*writer, part) != GCONV_OK) {
    gconv_carriage_failed(c, output);
    gconv_row_writer_discard(*writer);
    *writer = NULL;
  }
  c->stream.encode_ms += gconv_batch_clock_ms() - begin;
}

gconv_status gconv_task_execute_parts(gconv_worker *worker, gconv_task *task, const gconv_image *in, const void *jpeg,
                                      size_t size) {
  gconv_timings *timings = &task->report->timings;
  gconv_carriage c = {.stream = {.plan = worker->now.plan}, .in = in, .worker = worker, .task = task, .waits = jpeg != NULL};
  gconv_taker taker = {
      .begin = begin_results, .take = take_part, .user = &c, .png = gconv_estimate_gpu_makes_png(worker->batch)};
  c.stream.writers = worker->now.result_count == task->count ? calloc(task->count, sizeof *c.stream.writers) : NULL;
  if (!c.stream.writers)
    return GCONV_UNSUPPORTED;
  if (c.waits)
    gconv_worker_give_turn(worker);
  gconv_status status = gconv_plan_execute_parts(worker->now.plan, in, jpeg, size, &taker, timings);
  if (c.waits && !c.begun)
    gconv_worker_take_turn(worker);
  task->streamed = c.begun;
  if (c.begun) {
    gconv_task_keep_text(task, status);
    gconv_carriage_close(&c, status);
  }
  task->report->encode_ms = timings->encode_ms + c.stream.encode_ms;
  free(c.stream.writers);
  return status;
}
