/* SPDX-License-Identifier: MIT */
#include "batch/execute.h"
#include "base/clock.h"
#include "base/memory.h"
#include "batch/item.h"
#include "image/metadata.h"

/* ---- Limits of the format of results -------------------------------------------------------------------------------- */

/* Returns GCONV_OK if a result of `channels` channels could be written. */
static gconv_status check_channels(const gconv_group *group, const gconv_format_info *format, int32_t channels) {
  const gconv_image *out = gconv_plan_output_header(group->plan, 0);
  gconv_image piece = {
      .type = out->type,
      .frames = 1,
      .channels = channels,
      .planar = channels > 4, /* up to 4 planes are interleaved before they are written */
      .alpha = out->alpha,
  };
  return format->tensors ? GCONV_OK : gconv_format_check(format, &piece);
}

/* Refuses results that their format cannot hold, before any work. A stack has a channel for each filter and colour. */
static gconv_status check_results(const gconv_group *group) {
  const gconv_format_info *format = group->items[0].format;
  const gconv_image *out = gconv_plan_output_header(group->plan, 0), *in = &group->image;
  const gconv_plan_info *info = gconv_plan_get_info(group->plan);
  gconv_status status = check_channels(group, format, out->channels);
  int32_t alpha = out->alpha, colours = out->channels - alpha;
  if (status == GCONV_OK || group->plan->output_count > 1 || info->filters < 2 || colours != info->filters * info->channels)
    return status;
  gconv_message why;
  gconv_complain(&why, status, "in the stack, %s", gconv_last_error());
  bool grey_helps = info->channels == 3 && in->channels - in->alpha == 3 &&
                    check_channels(group, format, info->filters + alpha) == GCONV_OK;
  return gconv_fail(status, "%s%s", why.text, grey_helps ? ", or use --gray" : "");
}

/* ---- The plan ------------------------------------------------------------------------------------------------------ */

static gconv_status take(gconv_group *group, gconv_device *device, const gconv_image *like, int32_t rows, bool waits) {
  gconv_run *run = group->worker->run;
  gconv_plan_request request = {device, like, group->worker->either ? run->exact : run->operation, rows, waits};
  return gconv_plans_take(run->plans, &request, &group->plan, &group->common.cold);
}

/* Takes a plan for the most images at a time (by rows: the most rows) for which the GPU has memory. */
static gconv_status take_less(gconv_group *group, int32_t rows, gconv_status status) {
  enum { LEAST_ROWS = 16 };
  gconv_image part = group->image;
  int32_t *less = rows > 0 ? &rows : &part.frames;
  const char *what = rows > 0 ? "row" : "image";
  while (status == GCONV_NO_MEMORY && *less > (rows > 0 ? LEAST_ROWS : 1)) {
    *less = (*less + 1) / 2;
    snprintf(group->remark, sizeof group->remark, "%.400s, so it takes %d %s%s at a time", gconv_last_error(), *less, what,
             *less == 1 ? "" : "s");
    status = take(group, group->worker->device, &part, rows, true);
  }
  group->part = part.frames;
  return status;
}

/* Takes a plan. If the GPU has no memory for the group, takes one for fewer images or rows at a time. If that needs too much
 * memory as well, and the user left the device open, the CPU takes the group. A group that the CPU and the GPU may take does
 * not wait for memory of the GPU. */
static gconv_status take_somewhere(gconv_group *group, int32_t rows, bool rows_may) {
  gconv_worker *worker = group->worker;
  const gconv_operation *operation = worker->run->operation;
  group->part = group->image.frames;
  if (gconv_worker_is_on_cpu(worker))
    return take(group, worker->cpu, &group->image, rows, true);
  bool open = gconv_devices_are_open(worker->run->devices);
  gconv_status status = take(group, worker->device, &group->image, rows, !open || !worker->either);
  if (status != GCONV_NO_MEMORY)
    return status;
  if (operation->type->batches)
    status = take_less(group, rows, status);
  if (status != GCONV_NO_MEMORY || !open || rows_may || gconv_operation_lacks(operation, "cpu"))
    return status;
  snprintf(group->remark, sizeof group->remark, "%.400s, so the CPU takes it", gconv_last_error());
  group->part = group->image.frames;
  return take(group, worker->cpu, &group->image, rows, true);
}

gconv_status gconv_group_take_device(gconv_group *group, bool either, bool waits) {
  gconv_worker *worker = group->worker;
  double begin = gconv_now_ms();
  gconv_status status = gconv_devices_take(worker->run->devices, worker->index, either, waits, &worker->device);
  if (waits)
    group->common.wait_ms = gconv_now_ms() - begin;
  group->stranded = status != GCONV_OK;
  return status;
}

gconv_status gconv_group_take_plan(gconv_group *group, int32_t rows, bool rows_may) {
  gconv_worker *worker = group->worker;
  const gconv_batch *batch = worker->run->batch;
  if (!worker->device)
    GCONV_TRY(gconv_group_take_device(group, false, true));
  double begin = gconv_now_ms();
  gconv_group_give_plan(group);
  GCONV_TRY(take_somewhere(group, rows, rows_may));
  GCONV_TRY(check_results(group));
  if (batch->watch)
    GCONV_TRY(gconv_plan_watch(group->plan));
  if (group->common.cold && batch->explain && worker->explains && !group->explanation)
    GCONV_TRY(gconv_batch_explain(batch, group->plan, &group->explanation));
  group->common.plan_ms += group->common.cold ? gconv_now_ms() - begin : 0;
  return GCONV_OK;
}

void gconv_group_give_plan(gconv_group *group) {
  if (group->plan && group->worker->run->batch->watch)
    group->losses = gconv_plan_take_losses(group->plan);
  gconv_plans_give(group->worker->run->plans, group->plan);
  group->plan = NULL;
}

void gconv_group_describe(gconv_group *group) {
  gconv_plan_info *info = &group->common.plan;
  double images = (double)group->part * (double)group->count / group->image.frames; /* images of an execution */
  *info = *gconv_plan_get_info(group->plan);
  info->frames = group->image.frames / (int32_t)group->count;
  info->flop /= images;
  info->bytes /= images;
  info->estimate_ms /= images;
  group->common.executed = true;
}

/* ---- Execution ----------------------------------------------------------------------------------------------------- */

gconv_status gconv_group_prepare_results(const gconv_group *group) {
  size_t count = gconv_plan_outputs(group->plan);
  GCONV_TRY(gconv_holding_set_results(&group->worker->memory, count));
  for (size_t k = 0; k < count; k++) {
    gconv_image *result = &group->worker->memory.results[k], header = *gconv_plan_output_header(group->plan, k);
    header.frames = group->image.frames;
    gconv_image_reshape(result, &header);
    if (group->part < group->image.frames && !result->data) {
      GCONV_TRY(gconv_image_allocate(&header));
      *result = header;
    }
  }
  return GCONV_OK;
}

/* Verifies `count` new frames of a part, which begins with frame `first`. Keeps the worst result. */
static gconv_status verify(gconv_group *group, const gconv_image *in, const gconv_image *outputs, int32_t first,
                           int32_t count) {
  gconv_report *common = &group->common;
  gconv_verification part;
  double begin = gconv_now_ms();
  gconv_status status = gconv_plan_verify(group->plan, in, outputs, gconv_plan_outputs(group->plan),
                                          group->worker->run->batch->tolerance, &part);
  part.compared = part.compared / (uint64_t)in->frames * (uint64_t)count;
  common->verified &= status == GCONV_OK; /* one mismatch is enough */
  gconv_report_add_verification(common, &part, first);
  common->verified = status == GCONV_OK || status == GCONV_MISMATCH;
  common->total_ms -= gconv_now_ms() - begin;
  return status;
}

/* Executes the plan on all frames, a part at a time. The last part may repeat frames of the part before. */
static gconv_status execute_parts(gconv_group *group, gconv_image *outputs) {
  gconv_worker *worker = group->worker;
  int32_t frames = group->image.frames, part = group->part;
  for (int32_t at = 0; at < frames; at += part) {
    int32_t first = at < frames - part ? at : frames - part;
    gconv_image in = gconv_frames_of(&group->image, first, part);
    gconv_report times = {0};
    gconv_metadata_disown(&in);
    for (size_t k = 0; k < worker->memory.result_count; k++)
      outputs[k] = gconv_frames_of(&worker->memory.results[k], first, part);
    gconv_status status = gconv_plan_execute(group->plan, &in, outputs, gconv_plan_outputs(group->plan), &times.timings);
    gconv_report_add_times(&group->common, &times, 1);
    GCONV_TRY(status);
    if (worker->run->batch->verify)
      GCONV_TRY(verify(group, &in, outputs, first, at + part <= frames ? part : frames - at));
  }
  return GCONV_OK;
}

static gconv_status execute_whole(gconv_group *group) {
  gconv_image *results = group->worker->memory.results, *in = &group->image;
  GCONV_TRY(gconv_plan_execute(group->plan, in, results, gconv_plan_outputs(group->plan), &group->common.timings));
  return group->worker->run->batch->verify ? verify(group, in, results, 0, in->frames) : GCONV_OK;
}

void gconv_group_look(gconv_group *group) {
  for (size_t i = 0; i < group->count && group->worker->run->batch->watch; i++) {
    gconv_item *item = &group->items[i];
    gconv_image own = gconv_frames_of(&group->image, item->first_frame, item->frames);
    item->outcome.look = gconv_plan_look(group->plan);
    gconv_look_at(&item->outcome.look, &own, 0, gconv_device_threads(group->worker->cpu));
  }
}

gconv_status gconv_group_execute(gconv_group *group) {
  GCONV_TRY(gconv_group_prepare_results(group));
  if (group->part == group->image.frames)
    return execute_whole(group);
  GCONV_FREED gconv_image *outputs = calloc(group->worker->memory.result_count, sizeof *outputs);
  return outputs ? execute_parts(group, outputs) : gconv_no_memory();
}
