/* SPDX-License-Identifier: MIT */
/* The way of a group: look up what is done, take memory, decode, plan, execute, write, report. */
#include "base/clock.h"
#include "batch/layout.h"
#include "batch/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Whole --------------------------------------------------------------------------------------------------------- */

gconv_status gconv_worker_run(gconv_worker *worker, size_t count, gconv_turn *turn, void *context) {
  gconv_device *cpu = NULL;
  if (count > 1 && worker->threads > 1)
    GCONV_TRY(gconv_devices_cpu(worker->run->devices, worker->index, &cpu));
  if (cpu)
    gconv_threads_run(gconv_device_threads(cpu), count, turn, context);
  for (size_t i = 0; i < count && !cpu; i++)
    turn(context, i, 0);
  return GCONV_OK;
}

gconv_status gconv_worker_prepare_results(gconv_worker *worker, const gconv_task *task) {
  size_t count = gconv_plan_outputs(task->plan);
  if (worker->result_count != count) {
    gconv_image input = worker->input;
    worker->input = (gconv_image){0};
    gconv_worker_clear(worker);
    worker->input = input;
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
  gconv_status status = gconv_plan_verify(task->plan, in, outputs, worker->run->batch->tolerance, &part);
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
    in.icc = NULL;
    for (size_t k = 0; k < worker->result_count; k++)
      outputs[k] = gconv_frames_of(&worker->results[k], first, part);
    status = gconv_plan_execute(task->plan, &in, outputs, &times);
    add_timings(&task->common.timings, &times);
    if (status == GCONV_OK && worker->run->batch->verify)
      status = verify(worker, task, &in, outputs, first, at + part <= frames ? part : frames - at);
  }
  free(outputs);
  return status;
}

static gconv_status execute(gconv_worker *worker, gconv_task *task) {
  GCONV_TRY(gconv_task_keep_text(task, gconv_worker_prepare_results(worker, task)));
  if (task->part < task->image.frames)
    return gconv_task_keep_text(task, execute_parts(worker, task));
  GCONV_TRY(
      gconv_task_keep_text(task, gconv_plan_execute(task->plan, &task->image, worker->results, &task->common.timings)));
  if (!worker->run->batch->verify)
    return GCONV_OK;
  return gconv_task_keep_text(task, verify(worker, task, &task->image, worker->results, 0, task->image.frames));
}

/* What the plan does with one of the images. */
static void describe(gconv_task *task) {
  gconv_plan_info *info = &task->common.plan;
  double images = (double)task->part * (double)task->count / task->image.frames; /* that an execution takes */
  *info = *gconv_plan_get_info(task->plan);
  info->frames = task->image.frames / (int32_t)task->count;
  info->flop /= images;
  info->bytes /= images;
  info->estimate_ms /= images;
  task->common.executed = true;
}

/* From the pixels to the results of the plan: of a GPU, in parts that are written as they come, if it can. */
static gconv_status convolve(gconv_worker *worker, gconv_task *task, bool in_parts) {
  gconv_status status = GCONV_UNSUPPORTED;
  if (in_parts)
    status = gconv_task_execute_parts(worker, task, &task->image, NULL, 0);
  if (status != GCONV_OK && !task->streamed)
    status = execute(worker, task);
  if (status == GCONV_OK)
    describe(task);
  return status;
}

/* ---- The way --------------------------------------------------------------------------------------------------------- */

/* By rows, from the reader or from the pixels in memory. */
static gconv_status go_by_rows(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, const char *because) {
  const gconv_image *header = &task->image;
  gconv_cut cut;
  GCONV_TRY(gconv_rows_cut(worker, header, reader, &cut, &task->why));
  if (cut.bytes > 0)
    GCONV_TRY(gconv_worker_admit(worker, cut.bytes, NULL, &task->why));
  if (cut.whole && reader) {
    GCONV_TRY(gconv_task_load(worker, task, reader));
    reader = NULL;
  }
  if (task->count == 0)
    return GCONV_OK;
  GCONV_TRY(gconv_task_plan(worker, task, cut.rows, false));
  if (gconv_plan_row_step(task->plan) == 0 || gconv_plan_outputs(task->plan) != task->items[0].count)
    return GCONV_OK; /* the plan is of use all the same */
  if (cut.bytes == 0) {
    double bytes = gconv_stream_bytes(task->plan, header, cut.writers, worker->threads) +
                   (double)gconv_row_reader_bytes(reader) +
                   (double)gconv_plan_get_info(task->plan)->workspace_bytes * worker->threads;
    gconv_task_give_plan(worker, task); /* who waits keeps nothing */
    GCONV_TRY(gconv_worker_admit(worker, bytes, NULL, &task->why));
    GCONV_TRY(gconv_task_plan(worker, task, cut.rows, false));
  }
  if (because && task->common.cold && !task->remark[0])
    snprintf(task->remark, sizeof task->remark, "%.400s, so it goes by bands of %d rows", because,
             gconv_plan_row_step(task->plan));
  GCONV_TRY(gconv_task_stream(worker, task, reader, cut.writers));
  describe(task);
  return GCONV_OK;
}

/* Carries each image of a group by rows, as its device has no memory for one of them. */
static gconv_status go_one_by_one(gconv_worker *worker, gconv_task *task) {
  gconv_image all = task->image;
  gconv_item *items = task->items;
  size_t count = task->count;
  gconv_message because;
  gconv_complain(&because, GCONV_NO_MEMORY, "%s", gconv_last_error());
  gconv_status status = GCONV_OK;
  for (size_t i = 0; i < count; i++) {
    gconv_task one = {.group = task->group, .items = &items[i], .count = 1, .lock = PTHREAD_MUTEX_INITIALIZER};
    double begin = gconv_now_ms();
    one.image = gconv_frames_of(&all, items[i].first_frame, items[i].frames);
    status = go_by_rows(worker, &one, NULL, because.text);
    gconv_task_give_plan(worker, &one);
    one.common.total_ms += gconv_now_ms() - begin;
    gconv_task_finish(worker, &one, status);
  }
  task->count = 0; /* they are reported */
  return GCONV_OK;
}

/* Whether all items may go by rows from memory, where a GPU has no memory for them. */
static bool may_all_go_by_rows(const gconv_worker *worker, const gconv_task *task) {
  gconv_image one = gconv_header_of(&task->image);
  bool may = worker->run->operation->type->batches;
  for (size_t i = 0; i < task->count && may; i++) {
    one.frames = task->items[i].frames;
    may = !gconv_rows_obstacle(worker, &task->items[i], &one, NULL);
  }
  return may;
}

/* Decodes all, and executes the plan on that. `bytes`: what it takes; `reason`: why it does not go by rows. */
static gconv_status go_whole(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, double bytes,
                             const char *reason) {
  double parts = gconv_worker_is_on_cpu(worker) ? 0 : gconv_parts_bytes(worker, task, bytes);
  GCONV_TRY(gconv_worker_admit(worker, parts > 0 ? parts : bytes, reason, &task->why));
  gconv_image header = task->image;
  task->image = (gconv_image){0};
  gconv_status status = gconv_task_load(worker, task, reader);
  if (status != GCONV_OK || task->count == 0) {
    task->image = task->image.data ? task->image : header;
    return status;
  }
  bool rows_may = may_all_go_by_rows(worker, task);
  status = gconv_task_plan(worker, task, 0, rows_may);
  if (status == GCONV_NO_MEMORY && rows_may && gconv_worker_is_on_gpu(worker))
    return go_one_by_one(worker, task);
  return status == GCONV_OK ? convolve(worker, task, parts > 0) : status;
}

static const char *reason_for_whole(const gconv_worker *worker, const gconv_task *task, const gconv_row_reader *reader) {
  const char *obstacle = gconv_rows_obstacle(worker, &task->items[0], &task->image, reader);
  return obstacle ? obstacle : "border wrap, range minmax and stacks of more than 4 channels take it whole";
}

/* From the file of the only item to its results. */
static gconv_status carry_reader(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader) {
  task->image = gconv_header_of(gconv_row_reader_header(reader));
  if (worker->run->batch->nhwc)
    gconv_header_to_nchw(&task->image);
  const gconv_image *header = &task->image;
  task->items[0].frames = header->frames;
  gconv_worker_judge(worker, header);
  double bytes = gconv_whole_bytes(worker, header, 1, (double)gconv_row_reader_bytes(reader));
  bool too_large = worker->run->batch->memory > 0 && bytes > (double)gconv_budget_bytes(worker->run->budget);
  GCONV_TRY(gconv_task_take_device(worker, task, too_large));
  const char *reason = reason_for_whole(worker, task, reader);
  bool may = !gconv_rows_obstacle(worker, &task->items[0], header, reader) && worker->cost.known;
  if (may && gconv_rows_are_wanted(worker, header, bytes))
    GCONV_TRY(go_by_rows(worker, task, reader, NULL));
  if (!task->streamed && task->count > 0)
    GCONV_TRY(gconv_task_convolve_jpeg(worker, task, reader, bytes));
  if (task->common.executed)
    describe(task);
  if (!task->streamed && task->count > 0 && !task->common.executed)
    return go_whole(worker, task, reader, bytes, reason);
  return GCONV_OK;
}

static gconv_status carry_one(gconv_worker *worker, gconv_task *task) {
  gconv_read_options options = {.max_pixels = worker->run->batch->max_pixels};
  gconv_row_reader *reader = NULL;
  double begin = gconv_now_ms();
  GCONV_TRY(gconv_task_keep_text(task, gconv_row_reader_open(task->items[0].report.input->path, &options, &reader)));
  task->items[0].report.decode_ms = gconv_now_ms() - begin;
  gconv_status status = carry_reader(worker, task, reader);
  gconv_row_reader_close(reader);
  return status;
}

static gconv_status carry_several(gconv_worker *worker, gconv_task *task) {
  const gconv_image *header = &task->group->header;
  task->image = *header;
  gconv_worker_judge(worker, header);
  GCONV_TRY(gconv_task_take_device(worker, task, false));
  return go_whole(worker, task, NULL, gconv_whole_bytes(worker, header, (double)task->count, 0), NULL);
}

/* ---- A group --------------------------------------------------------------------------------------------------------- */

/* The share of one of several images in times that were taken of all. */
static void share_times(gconv_report *report, double images) {
  gconv_timings *times = &report->timings;
  *times = (gconv_timings){times->prepare_ms / images,  times->upload_ms / images, times->kernel_ms / images,
                           times->download_ms / images, times->finish_ms / images, times->decode_ms / images,
                           times->encode_ms / images};
  report->plan_ms /= images;
  report->encode_ms /= images;
  report->wait_ms /= images;
}

/* Completes the report of item i. */
static void complete(const gconv_worker *worker, const gconv_task *task, size_t i) {
  gconv_item *item = &task->items[i];
  gconv_report report = task->common;
  double images = (double)task->count;
  share_times(&report, images);
  report.input = item->report.input;
  report.outputs = item->report.outputs;
  report.output_count = item->report.output_count;
  report.written = item->report.written;
  report.passed = item->report.passed;
  report.failed = item->report.failed;
  memcpy(report.found, item->report.found, sizeof report.found);
  report.decode_ms += item->report.decode_ms;
  report.total_ms = task->common.total_ms / images;
  report.pixels = (uint64_t)item->frames * (uint64_t)task->image.height * (uint64_t)task->image.width;
  report.cold = task->common.cold && i == 0;
  report.explanation = i == 0 && task->common.executed ? task->explanation : NULL;
  report.remark = i == 0 && task->remark[0] ? task->remark : NULL;
  report.device_reason = gconv_devices_reason(worker->run->devices);
  item->report = report;
}

void gconv_task_finish(gconv_worker *worker, gconv_task *task, gconv_status status) {
  for (size_t i = 0; i < task->count; i++) {
    complete(worker, task, i);
    if (status != GCONV_OK && !task->streamed)
      gconv_item_fail(&task->items[i], task->why.text);
    gconv_item_hand_in(worker->run, &task->items[i]);
    free(task->items[i].wanted);
  }
  free(task->explanation);
}

/* What goes by rows, or is decoded by a GPU, has no pixels to keep. */
static void keep_input(gconv_worker *worker, gconv_task *task) {
  gconv_image_free(&worker->input);
  if (task->image.data)
    worker->input = task->image;
  task->image.data = task->image.icc = NULL;
}

static gconv_status carry(gconv_worker *worker, gconv_task *task) {
  double begin = gconv_now_ms();
  gconv_status status = task->count == 1 ? carry_one(worker, task) : carry_several(worker, task);
  gconv_task_give_plan(worker, task);
  if (status == GCONV_OK && !task->streamed && task->count > 0)
    status = gconv_task_write(worker, task);
  task->common.total_ms += gconv_now_ms() - begin;
  keep_input(worker, task);
  return status;
}

/* Begins the items, and reports those of which nothing is wanted. */
static void begin_items(gconv_worker *worker, gconv_task *task) {
  gconv_run *run = worker->run;
  for (size_t i = 0; i < task->group->count; i++) {
    gconv_item *item = &task->items[task->count];
    gconv_item_begin(run, task->group->first + i, item);
    item->wanted = calloc(item->count, sizeof *item->wanted);
    if (!item->wanted) {
      item->report.failed = item->count;
      gconv_item_add_error(item, item->report.input->path, "out of memory");
    } else if (gconv_item_choose(run, item)) {
      task->count++;
      continue;
    }
    gconv_item_hand_in(run, item);
    free(item->wanted);
  }
}

/* A plan that keeps all threads busy is large: where memory is short, it is kept only for a next group that can use it. */
static void drop_plans(const gconv_run *run, size_t group) {
  const gconv_group *now = &run->groups[group], *next = now + 1;
  bool alike =
      group + 1 < run->group_count && next->count == now->count && gconv_image_same_shape(&next->header, &now->header);
  if (run->batch->memory > 0 && run->operation->type->shares && !alike)
    gconv_plans_clear(run->plans);
}

gconv_status gconv_worker_process(gconv_worker *worker, size_t group, gconv_message *message) {
  gconv_task task = {.group = &worker->run->groups[group], .lock = PTHREAD_MUTEX_INITIALIZER};
  worker->explains |= group == 0;
  task.items = calloc(task.group->count, sizeof *task.items);
  if (!task.items)
    return gconv_complain_memory(message);
  begin_items(worker, &task);
  gconv_status status = task.count > 0 ? carry(worker, &task) : GCONV_OK;
  drop_plans(worker->run, group);
  gconv_worker_give_back(worker);
  if (task.stranded == GCONV_OK)
    gconv_task_finish(worker, &task, status);
  else
    gconv_complain(message, task.stranded, "%s", task.why.text);
  if (task.stranded != GCONV_OK)
    for (size_t i = 0; i < task.count; i++)
      free(task.items[i].wanted);
  free(task.items);
  pthread_mutex_destroy(&task.lock);
  return task.stranded;
}

void gconv_worker_leave(gconv_worker *worker) {
  gconv_worker_clear(worker);
  gconv_worker_give_back(worker);
}
