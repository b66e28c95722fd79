/* SPDX-License-Identifier: MIT */
/* A JPEG file that a GPU decodes: to results as a whole, or in parts that are written as they come. */
#include "batch/clock.h"
#include "batch/estimate.h"
#include "batch/room.h"
#include "batch/task.h"

#include <stdio.h>
#include <stdlib.h>

/* Executes the plan with the file, and leaves the processor to others meanwhile. */
static gconv_status execute_jpeg(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, const void *jpeg,
                                 size_t size) {
  gconv_worker_give_turn(worker);
  gconv_status status = gconv_plan_execute_jpeg(worker->now.plan, jpeg, size, gconv_row_reader_header(reader),
                                                worker->now.results, &task->report->timings);
  gconv_worker_take_turn(worker);
  return status;
}

/* Decodes and convolves: in parts, or, where results are wanted as a whole, at once. Fails only if results were begun. */
static gconv_status decode_and_convolve(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, const void *jpeg,
                                        size_t size, bool in_parts) {
  gconv_report *report = task->report;
  gconv_status status = GCONV_UNSUPPORTED;
  if (in_parts)
    status = gconv_task_execute_parts(worker, task, gconv_row_reader_header(reader), jpeg, size);
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
  if (gconv_worker_is_on_cpu(worker) || gconv_estimate_wants_pixels(worker->batch) ||
      !gconv_devices_decode(worker->devices, worker->index))
    return GCONV_OK;
  if (worker->device && gconv_devices_decoder_is_busy(worker->devices, worker->index))
    return GCONV_OK;
  uint64_t whole = gconv_worker_whole_bytes(worker, reader), parts = gconv_task_parts_bytes(worker, task, whole);
  GCONV_TRY(
      gconv_worker_admit(worker, parts > 0 ? parts : whole, gconv_task_reason_for_whole(worker, task, reader), &task->why));
  double begin = gconv_batch_clock_ms();
  gconv_status status = gconv_row_reader_jpeg(reader, &jpeg, &size);
  if (status != GCONV_OK)
    return GCONV_OK;
  report->decode_ms += gconv_batch_clock_ms() - begin;
  task->image = *header;
  task->image.icc = NULL; /* it stays the reader's */
  status = gconv_task_plan(worker, task);
  if (status == GCONV_OK)
    status = decode_and_convolve(worker, task, reader, jpeg, size, parts > 0);
  free(jpeg);
  return status;
}
