/* SPDX-License-Identifier: MIT */
#include "batch/clock.h"
#include "batch/room.h"
#include "batch/task.h"

#include <stdlib.h>

static gconv_status verify(gconv_worker *worker, gconv_task *task) {
  gconv_report *report = task->report;
  gconv_status status = gconv_plan_verify(worker->now.plan, &task->image, worker->now.results, worker->batch->tolerance,
                                          &report->verification);
  report->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  return gconv_task_keep_text(task, status);
}

/* From pixels to results: of a GPU, in parts that are written as they come, if it can. */
static gconv_status execute(gconv_worker *worker, gconv_task *task, bool in_parts) {
  gconv_timings *timings = &task->report->timings;
  gconv_status status = GCONV_UNSUPPORTED;
  if (in_parts)
    status = gconv_task_execute_parts(worker, task, &task->image, NULL, 0);
  if (status == GCONV_OK || task->streamed)
    return status;
  return gconv_task_keep_text(task, gconv_plan_execute(worker->now.plan, &task->image, worker->now.results, timings));
}

/* From the whole image to the results of the plan. */
static gconv_status convolve_whole(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader) {
  gconv_report *report = task->report;
  uint64_t whole = gconv_worker_whole_bytes(worker, reader);
  uint64_t parts = gconv_worker_is_on_cpu(worker) ? 0 : gconv_task_parts_bytes(worker, task, whole);
  GCONV_TRY(
      gconv_worker_admit(worker, parts > 0 ? parts : whole, gconv_task_reason_for_whole(worker, task, reader), &task->why));
  double begin = gconv_batch_clock_ms();
  task->image = worker->input;
  worker->input = (gconv_image){0};
  GCONV_TRY(gconv_task_keep_text(task, gconv_row_reader_image(reader, &task->image)));
  report->decode_ms += gconv_batch_clock_ms() - begin;
  GCONV_TRY(gconv_task_plan(worker, task));
  GCONV_TRY(execute(worker, task, parts > 0));
  report->executed = true;
  report->plan = *gconv_plan_get_info(worker->now.plan);
  return GCONV_OK;
}

/* From the file to the results of the plan, or, if it was carried by rows, to those on disk. */
static gconv_status convolve(gconv_worker *worker, gconv_task *task) {
  gconv_report *report = task->report;
  gconv_read_options options = {.max_pixels = worker->batch->max_pixels, .threads = worker->threads};
  gconv_row_reader *reader = NULL;
  double begin = gconv_batch_clock_ms();
  GCONV_TRY(gconv_task_keep_text(task, gconv_row_reader_open(report->input->path, &options, &reader)));
  const gconv_image *header = gconv_row_reader_header(reader);
  report->pixels = (uint64_t)header->frames * (uint64_t)header->height * (uint64_t)header->width;
  report->decode_ms = gconv_batch_clock_ms() - begin;
  gconv_status status = GCONV_OK;
  gconv_task_take_device(worker, reader);
  if (gconv_task_may_go_by_rows(worker, task, reader))
    status = gconv_task_convolve_rows(worker, task, reader);
  if (status == GCONV_OK && !task->streamed)
    status = gconv_task_convolve_jpeg(worker, task, reader);
  if (status == GCONV_OK && !task->streamed && !report->executed)
    status = convolve_whole(worker, task, reader);
  gconv_row_reader_close(reader);
  return status;
}

/* What goes by rows, or is decoded by a GPU, has no pixels to keep. */
static void keep_input(gconv_worker *worker, gconv_task *task) {
  gconv_image_free(&worker->input);
  if (task->image.data)
    worker->input = task->image;
  else
    gconv_image_free(&task->image);
  task->image = (gconv_image){0};
}

static void carry(gconv_worker *worker, gconv_task *task) {
  double begin = gconv_batch_clock_ms();
  gconv_status status = convolve(worker, task);
  if (!worker->now.plan) /* it was given up, with its texts */
    task->report->explanation = task->report->remark = NULL;
  double paused = gconv_batch_clock_ms();
  if (status == GCONV_OK && worker->batch->verify)
    status = verify(worker, task);
  double resumed = gconv_batch_clock_ms();
  if (status == GCONV_OK && !task->streamed)
    gconv_task_write(worker, task);
  else if (status != GCONV_OK && !task->streamed && task->stranded == GCONV_OK)
    gconv_task_fail_all(task, task->report->input->path, task->why.text);
  task->report->total_ms = gconv_batch_clock_ms() - begin - (resumed - paused);
  keep_input(worker, task);
  gconv_worker_give_back(worker);
}

gconv_status gconv_worker_process(gconv_worker *worker, size_t i, gconv_report *report, gconv_texts *errors,
                                  gconv_message *message) {
  const gconv_outputs *outputs = worker->batch->outputs;
  gconv_task task = {
      .paths = outputs->paths.items + outputs->first[i],
      .count = outputs->first[i + 1] - outputs->first[i],
      .report = report,
      .errors = errors,
  };
  *report = (gconv_report){
      .input = &worker->batch->inputs->items[i],
      .outputs = task.paths,
      .output_count = task.count,
      .errors = errors,
  };
  worker->explains |= i == 0;
  task.wanted = calloc(task.count, sizeof *task.wanted);
  if (!task.wanted) {
    report->failed = task.count;
    gconv_task_add_error(&task, report->input->path, "out of memory");
    return GCONV_OK;
  }
  if (gconv_task_choose(&task, worker->batch))
    carry(worker, &task);
  free(task.wanted);
  return task.stranded == GCONV_OK ? GCONV_OK : gconv_complain(message, task.stranded, "%s", task.why.text);
}
