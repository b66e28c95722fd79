/* SPDX-License-Identifier: MIT */
/* The device and the plan of an input. */
#include "batch/clock.h"
#include "batch/explain.h"
#include "batch/room.h"
#include "batch/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The device ---------------------------------------------------------------------------------------------------- */

/* Whether the whole image has more than all of the memory that was allowed. */
static bool is_too_large(const gconv_worker *worker, const gconv_row_reader *reader) {
  return worker->batch->memory > 0 && gconv_worker_whole_bytes(worker, reader) > gconv_budget_bytes(worker->budget);
}

void gconv_task_take_device(gconv_worker *worker, const gconv_row_reader *reader) {
  gconv_device *spare = gconv_devices_agree(worker->devices) && is_too_large(worker, reader)
                            ? gconv_devices_spare(worker->devices, worker->index)
                            : NULL;
  gconv_device *device = spare ? spare : gconv_devices_now(worker->devices, worker->index);
  if (worker->device && worker->device != device) {
    gconv_worker_drop(worker, &worker->now);
    gconv_worker_drop(worker, &worker->before);
  }
  worker->device = device;
}

bool gconv_worker_is_on_cpu(const gconv_worker *worker) {
  return worker->device && strcmp(gconv_device_get_info(worker->device)->name, "cpu") == 0;
}

static gconv_status ensure_device(gconv_worker *worker, gconv_task *task) {
  if (worker->device)
    return GCONV_OK;
  double begin = gconv_batch_clock_ms();
  task->stranded = gconv_devices_wait(worker->devices, worker->index, &task->image, &worker->device, &task->why);
  task->report->wait_ms = gconv_batch_clock_ms() - begin;
  return task->stranded;
}

/* ---- The plan ------------------------------------------------------------------------------------------------------ */

/* Whether the results of the plan could be written if they had this many channels. */
static gconv_status check_channels(const gconv_worker *worker, const gconv_image *image, int32_t channels) {
  const gconv_format_info *format = worker->batch->outputs->format;
  gconv_image piece = {
      .type = gconv_plan_get_info(worker->now.plan)->output_type,
      .frames = 1,
      .channels = channels,
      .planar = channels > 4, /* what is not is made interleaved */
      .alpha = image->alpha && worker->batch->options.alpha != GCONV_ALPHA_DROP,
  };
  return format->multiframe ? GCONV_OK : gconv_format_check(format, &piece);
}

/* Refuses results that their format cannot hold: better before the work than after it. */
static gconv_status check_results(const gconv_worker *worker, gconv_task *task) {
  const gconv_options *options = &worker->batch->options;
  const gconv_image *image = &task->image;
  gconv_status status = check_channels(worker, image, gconv_plan_get_info(worker->now.plan)->out_channels);
  if (status == GCONV_OK || options->combine != GCONV_COMBINE_STACK)
    return gconv_task_keep_text(task, status);
  gconv_complain(&task->why, status, "in the stack, %s", gconv_last_error());
  bool grey_helps = !options->gray && image->channels - image->alpha == 3 &&
                    check_channels(worker, image, (int32_t)worker->batch->filters->count + image->alpha) == GCONV_OK;
  return gconv_complain(&task->why, status, "%s%s", task->why.text, grey_helps ? ", or use --gray" : "");
}

/* Waits for a plan, and leaves the processor to others meanwhile. */
static gconv_status await_plan(gconv_worker *worker, const gconv_plan_request *request) {
  gconv_worker_give_turn(worker);
  gconv_status status = gconv_plans_wait(worker->plans, request, &worker->now.plan);
  gconv_worker_take_turn(worker);
  return status;
}

/* Makes or takes a plan on the worker's device. Where that has no memory for the image: on the CPU, if the user left the
 * device open; else on the GPU, once others have left memory. */
static gconv_status plan_somewhere(gconv_worker *worker, const gconv_image *image, const gconv_options *options) {
  gconv_plan_request request = {worker->device, image, worker->batch->filters, options};
  gconv_status status = gconv_plans_take(worker->plans, &request, &worker->now.plan);
  if (status == GCONV_NO_MEMORY && worker->before.plan) {
    gconv_worker_drop(worker, &worker->before);
    status = gconv_plans_take(worker->plans, &request, &worker->now.plan);
  }
  if (status != GCONV_NO_MEMORY || gconv_worker_is_on_cpu(worker))
    return status;
  gconv_device *spare = gconv_devices_spare(worker->devices, worker->index);
  if (!spare)
    return await_plan(worker, &request);
  snprintf(worker->now.remark, sizeof worker->now.remark, "%s, so the CPU takes it", gconv_last_error());
  request.device = spare;
  return gconv_plans_take(worker->plans, &request, &worker->now.plan);
}

static gconv_status make_plan(gconv_worker *worker, gconv_task *task) {
  const gconv_batch *batch = worker->batch;
  gconv_options options = batch->options;
  options.keep_type = false;
  options.output_type = gconv_batch_output_type(&batch->options, batch->outputs->format, task->image.type);
  options.executions = batch->inputs->count;
  options.without = gconv_devices_without(worker->devices);
  GCONV_TRY(gconv_task_keep_text(task, plan_somewhere(worker, &task->image, &options)));
  worker->now.results = calloc(gconv_plan_outputs(worker->now.plan), sizeof *worker->now.results);
  if (!worker->now.results)
    return gconv_complain_memory(&task->why);
  worker->now.result_count = gconv_plan_outputs(worker->now.plan);
  GCONV_TRY(check_results(worker, task));
  if (batch->explain && worker->explains)
    return gconv_task_keep_text(task, gconv_batch_explain(batch, worker->now.plan, &worker->now.explanation));
  return GCONV_OK;
}

/* Whether the plan takes so much memory that it is made again rather than kept. */
static bool is_large(const gconv_plan *plan) {
  const double most = 1e9;
  return gconv_plan_get_info(plan)->bytes > most || (double)gconv_plan_held_bytes(plan) > most;
}

/* Whether the worker has a plan for the image, which then is worker->now; else there is room for one. */
static bool find_plan(gconv_worker *worker, const gconv_image *image) {
  if (worker->now.plan && gconv_plan_fits(worker->now.plan, image))
    return true;
  gconv_planned last = worker->now;
  worker->now = worker->before;
  worker->before = last;
  if (worker->now.plan && gconv_plan_fits(worker->now.plan, image))
    return true;
  gconv_worker_drop(worker, &worker->now);
  if (worker->before.plan && is_large(worker->before.plan))
    gconv_worker_drop(worker, &worker->before);
  return false;
}

gconv_status gconv_task_plan(gconv_worker *worker, gconv_task *task) {
  gconv_report *report = task->report;
  GCONV_TRY(ensure_device(worker, task));
  if (find_plan(worker, &task->image))
    return GCONV_OK;
  double begin = gconv_batch_clock_ms();
  gconv_status status = make_plan(worker, task);
  report->plan_ms = gconv_batch_clock_ms() - begin;
  report->cold = true;
  report->explanation = worker->now.explanation;
  report->device_reason = gconv_devices_reason(worker->devices);
  report->remark = worker->now.remark[0] ? worker->now.remark : NULL;
  if (status != GCONV_OK)
    gconv_worker_drop(worker, &worker->now);
  return status;
}
