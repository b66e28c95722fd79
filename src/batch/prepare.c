/* SPDX-License-Identifier: MIT */
/* The device and the plan of a group. */
#include "base/clock.h"
#include "batch/explain.h"
#include "batch/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The device ---------------------------------------------------------------------------------------------------- */

gconv_status gconv_task_take_device(gconv_worker *worker, gconv_task *task, bool must_go_by_rows) {
  gconv_devices *devices = worker->run->devices;
  if (worker->either && must_go_by_rows)
    return gconv_task_keep_text(task, gconv_devices_cpu(devices, worker->index, &worker->device));
  return task->stranded = gconv_devices_take(devices, worker->index, worker->either, &worker->device, &task->why);
}

static bool is_cpu(const gconv_device *device) {
  return strcmp(gconv_device_get_info(device)->name, "cpu") == 0;
}

bool gconv_worker_is_on_cpu(const gconv_worker *worker) {
  return worker->device && is_cpu(worker->device);
}

bool gconv_worker_is_on_gpu(const gconv_worker *worker) {
  return worker->device && !is_cpu(worker->device);
}

static gconv_status ensure_device(gconv_worker *worker, gconv_task *task) {
  if (worker->device)
    return GCONV_OK;
  double begin = gconv_now_ms();
  task->stranded = gconv_devices_wait(worker->run->devices, worker->index, &worker->device, &task->why);
  task->common.wait_ms = gconv_now_ms() - begin;
  return task->stranded;
}

/* ---- What the results can be ---------------------------------------------------------------------------------------- */

/* Whether a result could be written if it had this many channels. */
static gconv_status check_channels(const gconv_task *task, const gconv_format_info *format, int32_t channels) {
  const gconv_image *out = gconv_plan_output_header(task->plan, 0);
  gconv_image piece = {
      .type = out->type,
      .frames = 1,
      .channels = channels,
      .planar = channels > 4, /* what is not is made interleaved */
      .alpha = out->alpha,
  };
  return format->multiframe ? GCONV_OK : gconv_format_check(format, &piece);
}

/* Refuses results that their format cannot hold: better before the work than after it. A stack has a channel for each filter
 * and colour. */
static gconv_status check_results(const gconv_worker *worker, gconv_task *task) {
  const gconv_format_info *format = worker->run->batch->outputs->format;
  const gconv_image *out = gconv_plan_output_header(task->plan, 0), *in = &task->image;
  const gconv_plan_info *info = gconv_plan_get_info(task->plan);
  gconv_status status = check_channels(task, format, out->channels);
  int32_t alpha = out->alpha, colours = out->channels - alpha;
  if (status == GCONV_OK || task->plan->output_count > 1 || info->filters < 2 || colours != info->filters * info->channels)
    return gconv_task_keep_text(task, status);
  gconv_complain(&task->why, status, "in the stack, %s", gconv_last_error());
  bool grey_helps = info->channels == 3 && in->channels - in->alpha == 3 &&
                    check_channels(task, format, info->filters + alpha) == GCONV_OK;
  return gconv_complain(&task->why, status, "%s%s", task->why.text, grey_helps ? ", or use --gray" : "");
}

/* ---- The plan ------------------------------------------------------------------------------------------------------ */

static gconv_status take(gconv_worker *worker, gconv_task *task, gconv_device *device, const gconv_image *like, int32_t rows,
                         bool waits) {
  gconv_run *run = worker->run;
  gconv_plan_request request = {device, like, worker->either ? run->exact : run->operation, rows, waits};
  return gconv_plans_take(run->plans, &request, &task->plan, &task->common.cold);
}

/* For as many images at a time as the GPU has memory for; by rows, for as many rows. */
static gconv_status take_less(gconv_worker *worker, gconv_task *task, int32_t rows, gconv_status status) {
  enum { LEAST_ROWS = 16 };
  gconv_image part = task->image;
  int32_t *less = rows > 0 ? &rows : &part.frames;
  const char *what = rows > 0 ? "row" : "image";
  while (status == GCONV_NO_MEMORY && *less > (rows > 0 ? LEAST_ROWS : 1)) {
    *less = (*less + 1) / 2;
    snprintf(task->remark, sizeof task->remark, "%.400s, so it takes %d %s%s at a time", gconv_last_error(), *less, what,
             *less == 1 ? "" : "s");
    status = take(worker, task, worker->device, &part, rows, true);
  }
  task->part = part.frames;
  return status;
}

/* On a GPU without memory for the group: fewer images at a time, or fewer rows; on the CPU, if either device may take it, or
 * if the user left the device open and the GPU has no memory even when nobody else has a plan there. */
static gconv_status take_somewhere(gconv_worker *worker, gconv_task *task, int32_t rows, bool rows_may) {
  gconv_devices *devices = worker->run->devices;
  bool open = gconv_devices_are_open(devices), batches = worker->run->operation->type->batches;
  task->part = task->image.frames;
  gconv_status status = take(worker, task, worker->device, &task->image, rows, !open || !worker->either);
  if (status != GCONV_NO_MEMORY || !gconv_worker_is_on_gpu(worker))
    return status;
  if (batches)
    status = take_less(worker, task, rows, status);
  if (status != GCONV_NO_MEMORY || !open || rows_may || worker->run->operation->type->lacks(worker->run->operation, "cpu"))
    return status;
  snprintf(task->remark, sizeof task->remark, "%.400s, so the CPU takes it", gconv_last_error());
  gconv_device *cpu = NULL;
  GCONV_TRY(gconv_devices_cpu(devices, worker->index, &cpu));
  task->part = task->image.frames;
  return take(worker, task, cpu, &task->image, rows, true);
}

gconv_status gconv_task_plan(gconv_worker *worker, gconv_task *task, int32_t rows, bool rows_may) {
  const gconv_batch *batch = worker->run->batch;
  GCONV_TRY(ensure_device(worker, task));
  double begin = gconv_now_ms();
  gconv_task_give_plan(worker, task);
  GCONV_TRY(gconv_task_keep_text(task, take_somewhere(worker, task, rows, rows_may)));
  GCONV_TRY(check_results(worker, task));
  if (task->common.cold && batch->explain && worker->explains && !task->explanation)
    GCONV_TRY(gconv_task_keep_text(task, gconv_batch_explain(batch, task->plan, &task->explanation)));
  task->common.plan_ms += task->common.cold ? gconv_now_ms() - begin : 0;
  return GCONV_OK;
}

void gconv_task_give_plan(gconv_worker *worker, gconv_task *task) {
  gconv_plans_give(worker->run->plans, task->plan);
  task->plan = NULL;
}
