/* SPDX-License-Identifier: MIT */
/* From pixels to results: the device of a group, its plan, and its execution. */
#include "base/clock.h"
#include "batch/run.h"
#include "image/metadata.h"

#include <stdio.h>
#include <stdlib.h>

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
  return format->tensors ? GCONV_OK : gconv_format_check(format, &piece);
}

/* Refuses results that their format cannot hold: better before the work than after it. A stack has a channel for each filter
 * and colour. */
static gconv_status check_results(const gconv_task *task) {
  const gconv_format_info *format = task->items[0].format;
  const gconv_image *out = gconv_plan_output_header(task->plan, 0), *in = &task->image;
  const gconv_plan_info *info = gconv_plan_get_info(task->plan);
  gconv_status status = check_channels(task, format, out->channels);
  int32_t alpha = out->alpha, colours = out->channels - alpha;
  if (status == GCONV_OK || task->plan->output_count > 1 || info->filters < 2 || colours != info->filters * info->channels)
    return status;
  gconv_message why;
  gconv_complain(&why, status, "in the stack, %s", gconv_last_error());
  bool grey_helps = info->channels == 3 && in->channels - in->alpha == 3 &&
                    check_channels(task, format, info->filters + alpha) == GCONV_OK;
  return gconv_fail(status, "%s%s", why.text, grey_helps ? ", or use --gray" : "");
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
  const gconv_operation *operation = worker->run->operation;
  task->part = task->image.frames;
  if (gconv_worker_is_on_cpu(worker))
    return take(worker, task, worker->cpu, &task->image, rows, true);
  bool open = gconv_devices_are_open(worker->run->devices);
  gconv_status status = take(worker, task, worker->device, &task->image, rows, !open || !worker->either);
  if (status != GCONV_NO_MEMORY)
    return status;
  if (operation->type->batches)
    status = take_less(worker, task, rows, status);
  if (status != GCONV_NO_MEMORY || !open || rows_may || gconv_operation_lacks(operation, "cpu"))
    return status;
  snprintf(task->remark, sizeof task->remark, "%.400s, so the CPU takes it", gconv_last_error());
  task->part = task->image.frames;
  return take(worker, task, worker->cpu, &task->image, rows, true);
}

gconv_status gconv_task_take_device(gconv_worker *worker, gconv_task *task, bool either, bool waits) {
  double begin = gconv_now_ms();
  gconv_status status = gconv_devices_take(worker->run->devices, worker->index, either, waits, &worker->device);
  if (waits)
    task->common.wait_ms = gconv_now_ms() - begin;
  task->stranded = status != GCONV_OK;
  return status;
}

gconv_status gconv_task_plan(gconv_worker *worker, gconv_task *task, int32_t rows, bool rows_may) {
  const gconv_batch *batch = worker->run->batch;
  if (!worker->device)
    GCONV_TRY(gconv_task_take_device(worker, task, false, true));
  double begin = gconv_now_ms();
  gconv_task_give_plan(worker, task);
  GCONV_TRY(take_somewhere(worker, task, rows, rows_may));
  GCONV_TRY(check_results(task));
  if (batch->watch)
    GCONV_TRY(gconv_plan_watch(task->plan));
  if (task->common.cold && batch->explain && worker->explains && !task->explanation)
    GCONV_TRY(gconv_batch_explain(batch, task->plan, &task->explanation));
  task->common.plan_ms += task->common.cold ? gconv_now_ms() - begin : 0;
  return GCONV_OK;
}

void gconv_task_give_plan(gconv_worker *worker, gconv_task *task) {
  if (task->plan && worker->run->batch->watch)
    task->losses = gconv_plan_take_losses(task->plan);
  gconv_plans_give(worker->run->plans, task->plan);
  task->plan = NULL;
}

void gconv_task_describe(gconv_task *task) {
  gconv_plan_info *info = &task->common.plan;
  double images = (double)task->part * (double)task->count / task->image.frames; /* that an execution takes */
  *info = *gconv_plan_get_info(task->plan);
  info->frames = task->image.frames / (int32_t)task->count;
  info->flop /= images;
  info->bytes /= images;
  info->estimate_ms /= images;
  task->common.executed = true;
}

/* ---- Results in the memory of the last ones -------------------------------------------------------------------------- */

void gconv_worker_clear_results(gconv_worker *worker) {
  for (size_t k = 0; k < worker->result_count; k++)
    gconv_image_free(&worker->results[k]);
  free(worker->results);
  worker->results = NULL;
  worker->result_count = 0;
}

gconv_status gconv_worker_prepare_results(gconv_worker *worker, const gconv_task *task) {
  size_t count = gconv_plan_outputs(task->plan);
  if (worker->result_count != count) {
    gconv_worker_clear_results(worker);
    worker->results = calloc(count, sizeof *worker->results);
    if (!worker->results)
      return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
    worker->result_count = count;
  }
  for (size_t k = 0; k < count; k++) {
    gconv_image header = *gconv_plan_output_header(task->plan, k);
    header.frames = task->image.frames;
    gconv_image_reshape(&worker->results[k], &header);
    if (task->part < task->image.frames && !worker->results[k].data) {
      GCONV_TRY(gconv_image_allocate(&header));
      worker->results[k] = header;
    }
  }
  return GCONV_OK;
}

/* ---- Execution ----------------------------------------------------------------------------------------------------- */

static void add_timings(gconv_timings *sum, const gconv_timings *times) {
  sum->prepare_ms += times->prepare_ms;
  sum->upload_ms += times->upload_ms;
  sum->kernel_ms += times->kernel_ms;
  sum->download_ms += times->download_ms;
  sum->finish_ms += times->finish_ms;
}

/* Verifies `count` new frames of a part; keeps the worst. */
static gconv_status verify(const gconv_worker *worker, gconv_task *task, const gconv_image *in, const gconv_image *outputs,
                           int32_t first, int32_t count) {
  gconv_report *common = &task->common;
  gconv_verification *worst = &common->verification, part;
  uint64_t compared = worst->compared;
  double begin = gconv_now_ms();
  gconv_status status =
      gconv_plan_verify(task->plan, in, outputs, gconv_plan_outputs(task->plan), worker->run->batch->tolerance, &part);
  part.frame += first;
  compared += part.compared / (uint64_t)in->frames * (uint64_t)count;
  if (!common->verified || status != GCONV_OK || part.max_error * worst->allowed > worst->max_error * part.allowed)
    *worst = part;
  worst->compared = compared;
  common->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  common->total_ms -= gconv_now_ms() - begin;
  return status;
}

/* Executes the plan on all frames, as many at a time as it takes; the last part may repeat frames of the one before. */
static gconv_status execute_parts(gconv_worker *worker, gconv_task *task) {
  int32_t frames = task->image.frames, part = task->part;
  gconv_image *outputs = calloc(worker->result_count, sizeof *outputs);
  gconv_status status = outputs ? GCONV_OK : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (int32_t at = 0; at < frames && status == GCONV_OK; at += part) {
    int32_t first = at < frames - part ? at : frames - part;
    gconv_image in = gconv_frames_of(&task->image, first, part);
    gconv_timings times;
    gconv_metadata_disown(&in);
    for (size_t k = 0; k < worker->result_count; k++)
      outputs[k] = gconv_frames_of(&worker->results[k], first, part);
    status = gconv_plan_execute(task->plan, &in, outputs, gconv_plan_outputs(task->plan), &times);
    add_timings(&task->common.timings, &times);
    if (status == GCONV_OK && worker->run->batch->verify)
      status = verify(worker, task, &in, outputs, first, at + part <= frames ? part : frames - at);
  }
  free(outputs);
  return status;
}

static gconv_status execute(gconv_worker *worker, gconv_task *task) {
  GCONV_TRY(gconv_worker_prepare_results(worker, task));
  if (task->part < task->image.frames)
    return execute_parts(worker, task);
  GCONV_TRY(
      gconv_plan_execute(task->plan, &task->image, worker->results, gconv_plan_outputs(task->plan), &task->common.timings));
  return worker->run->batch->verify ? verify(worker, task, &task->image, worker->results, 0, task->image.frames) : GCONV_OK;
}

/* Looks at the pixels of all items for what results cannot show. */
static void look_at_items(const gconv_worker *worker, gconv_task *task) {
  for (size_t i = 0; i < task->count && worker->run->batch->watch; i++) {
    gconv_item *item = &task->items[i];
    gconv_image own = gconv_frames_of(&task->image, item->first_frame, item->frames);
    item->look = gconv_plan_look(task->plan);
    gconv_look_at(&item->look, &own, 0, gconv_device_threads(worker->cpu));
  }
}

gconv_status gconv_task_execute(gconv_worker *worker, gconv_task *task, bool in_parts) {
  gconv_status status = GCONV_UNSUPPORTED;
  look_at_items(worker, task);
  if (in_parts)
    status = gconv_task_execute_parts(worker, task, &task->image, NULL, 0);
  if (status != GCONV_OK && !task->streamed)
    status = execute(worker, task);
  if (status == GCONV_OK)
    gconv_task_describe(task);
  return status;
}
