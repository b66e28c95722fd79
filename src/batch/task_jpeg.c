/* SPDX-License-Identifier: MIT */
/* A JPEG file that a GPU decodes: to results as a whole, or to rows that are written as they come. */
#include "batch/clock.h"
#include "batch/room.h"
#include "batch/task.h"

#include <stdio.h>
#include <stdlib.h>

/* Whether the pixels of the input are wanted on the host, which then decodes what the GPU could: to verify, or for stages
 * before the convolution. */
static bool wants_pixels(const gconv_batch *batch) {
  return batch->verify || batch->options.gray || batch->options.linear;
}

/* When results come from the GPU: a processor is wanted again, and files for them. */
static int32_t begin_results(void *user) {
  gconv_carriage *c = user;
  int32_t step = 1;
  c->begun = true;
  gconv_worker_take_turn(c->worker);
  gconv_carriage_open(c);
  for (size_t n = 0; n < c->task->count; n++) {
    int32_t own = c->stream.writers[n] ? gconv_row_writer_step(c->stream.writers[n]) : 1;
    step = own > step ? own : step;
  }
  return step;
}

static void take_rows(void *user, size_t output, const void *rows, size_t row_bytes, int32_t count) {
  gconv_carriage *c = user;
  gconv_row_writer **writer = &c->stream.writers[output];
  double begin = gconv_batch_clock_ms();
  if (*writer && gconv_row_writer_write(*writer, rows, row_bytes, count) != GCONV_OK) {
    gconv_carriage_failed(c, output);
    gconv_row_writer_discard(*writer);
    *writer = NULL;
  }
  c->stream.encode_ms += gconv_batch_clock_ms() - begin;
}

/* Whether the results of an image that the GPU decodes may be written as they come: all files are open at once, and what
 * each needs beside its rows is to fit in --memory. */
static bool may_take_rows(const gconv_worker *worker, const gconv_task *task, uint64_t bytes) {
  const size_t most = 8;
  return task->count <= most && !gconv_task_is_sent(task) &&
         (worker->batch->memory == 0 || bytes <= gconv_budget_bytes(worker->budget));
}

/* Writes the results as they come: task->streamed is set once any is begun. GCONV_UNSUPPORTED if they cannot come by rows.
 */
static gconv_status execute_jpeg_rows(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, const void *jpeg,
                                      size_t size) {
  gconv_carriage c = {.stream = {.reader = reader, .plan = worker->now.plan}, .worker = worker, .task = task};
  gconv_taker taker = {.begin = begin_results, .take = take_rows, .user = &c};
  c.stream.writers = calloc(task->count, sizeof *c.stream.writers);
  if (!c.stream.writers)
    return GCONV_UNSUPPORTED;
  gconv_worker_give_turn(worker);
  gconv_status status = gconv_plan_execute_jpeg_rows(worker->now.plan, jpeg, size, gconv_row_reader_header(reader), &taker,
                                                     &task->report->timings);
  if (!c.begun)
    gconv_worker_take_turn(worker);
  task->streamed = c.begun;
  if (c.begun) {
    gconv_task_keep_text(task, status);
    gconv_carriage_close(&c, status);
  }
  task->report->encode_ms = c.stream.encode_ms;
  free(c.stream.writers);
  return status;
}

/* Leaves the processor to others meanwhile. */
static gconv_status execute_jpeg(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, const void *jpeg,
                                 size_t size) {
  gconv_worker_give_turn(worker);
  gconv_status status = gconv_plan_execute_jpeg(worker->now.plan, jpeg, size, gconv_row_reader_header(reader),
                                                worker->now.results, &task->report->timings);
  gconv_worker_take_turn(worker);
  return status;
}

/* By rows, or, where results are wanted as a whole, whole. A failure is one only if results were begun. */
static gconv_status decode_and_convolve(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, const void *jpeg,
                                        size_t size, bool by_rows) {
  gconv_report *report = task->report;
  gconv_status status = GCONV_UNSUPPORTED;
  if (by_rows && worker->now.result_count == task->count)
    status = execute_jpeg_rows(worker, task, reader, jpeg, size);
  if (status == GCONV_UNSUPPORTED && !task->streamed)
    status = execute_jpeg(worker, task, reader, jpeg, size);
  report->executed = status == GCONV_OK;
  if (report->executed) {
    report->decode_ms += report->timings.decode_ms;
    report->plan = *gconv_plan_get_info(worker->now.plan);
  } else if (!task->streamed) {
    snprintf(worker->refusal, sizeof worker->refusal, "not decoded by a GPU: %s", gconv_last_error());
    report->remark = report->remark ? report->remark : worker->refusal;
    return GCONV_OK;
  }
  return status;
}

gconv_status gconv_task_convolve_jpeg(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader) {
  gconv_report *report = task->report;
  const gconv_image *header = gconv_row_reader_header(reader);
  void *jpeg = NULL;
  size_t size = 0;
  if (gconv_worker_is_on_cpu(worker) || wants_pixels(worker->batch) || !gconv_devices_decode(worker->devices, worker->index))
    return GCONV_OK;
  uint64_t bytes = gconv_worker_whole_bytes(worker, reader);
  uint64_t more = bytes + (task->count - 1) * gconv_stream_writer_bytes(worker->threads);
  bool by_rows = may_take_rows(worker, task, more);
  GCONV_TRY(
      gconv_worker_admit(worker, by_rows ? more : bytes, gconv_task_reason_for_whole(worker, task, reader), &task->why));
  double begin = gconv_batch_clock_ms();
  gconv_status status = gconv_row_reader_jpeg(reader, &jpeg, &size);
  if (status != GCONV_OK)
    return GCONV_OK;
  report->decode_ms += gconv_batch_clock_ms() - begin;
  task->image = *header;
  task->image.icc = NULL; /* it stays the reader's */
  status = gconv_task_plan(worker, task);
  if (status == GCONV_OK)
    status = decode_and_convolve(worker, task, reader, jpeg, size, by_rows);
  free(jpeg);
  return status;
}
