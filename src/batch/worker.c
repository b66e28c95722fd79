/* SPDX-License-Identifier: MIT */
/* The way of a group: look up what is done, take memory, decode, plan, execute, write, report. */
#include "base/clock.h"
#include "base/nodata.h"
#include "batch/run.h"
#include "image/layout.h"
#include "image/metadata.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- By rows --------------------------------------------------------------------------------------------------------- */

/* From the reader, or from the pixels in memory. */
static gconv_status go_by_rows(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader, const char *because) {
  const gconv_image *header = &task->image;
  gconv_cut cut;
  GCONV_TRY(gconv_rows_cut(worker, &task->items[0], header, reader, &cut));
  GCONV_TRY(gconv_worker_admit(worker, cut.bytes, NULL));
  if (cut.whole && reader) {
    GCONV_TRY(gconv_task_load(worker, task, reader));
    reader = NULL;
  }
  if (task->count == 0)
    return GCONV_OK;
  GCONV_TRY(gconv_task_plan(worker, task, cut.rows, false));
  if (gconv_plan_row_step(task->plan) == 0 || gconv_plan_outputs(task->plan) != task->items[0].count)
    return GCONV_OK; /* this plan cannot go by rows: it is kept, and the caller takes the image whole */
  if (because && task->common.cold && !task->remark[0])
    snprintf(task->remark, sizeof task->remark, "%.400s, so it goes by bands of %d rows", because,
             gconv_plan_row_step(task->plan));
  GCONV_TRY(gconv_task_stream(worker, task, reader, cut.writers));
  gconv_task_describe(task);
  return GCONV_OK;
}

/* Carries each image of a group by rows, as its device has no memory for one of them. */
static gconv_status go_one_by_one(gconv_worker *worker, gconv_task *task) {
  gconv_message because;
  gconv_complain(&because, GCONV_NO_MEMORY, "%s", gconv_last_error());
  for (size_t i = 0; i < task->count; i++) {
    gconv_item *item = &task->items[i];
    gconv_task one = {.group = task->group, .items = item, .count = 1, .lock = PTHREAD_MUTEX_INITIALIZER};
    double begin = gconv_now_ms();
    one.image = gconv_frames_of(&task->image, item->first_frame, item->frames);
    gconv_status status = gconv_task_keep_text(&one, go_by_rows(worker, &one, NULL, because.text));
    gconv_task_give_plan(worker, &one);
    one.common.total_ms += gconv_now_ms() - begin;
    gconv_task_finish(worker->run, &one, status);
  }
  task->count = 0; /* they are reported */
  return GCONV_OK;
}

/* ---- Whole ----------------------------------------------------------------------------------------------------------- */

/* Whether all items may go by rows from memory, where a GPU has no memory for them. */
static bool may_all_go_by_rows(const gconv_worker *worker, const gconv_task *task) {
  gconv_image one = gconv_header_of(&task->image);
  bool may = worker->run->operation->type->batches && !task->frames;
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
  GCONV_TRY(gconv_worker_admit(worker, parts > 0 ? parts : bytes, reason));
  GCONV_TRY(gconv_task_load(worker, task, reader));
  if (task->count == 0)
    return GCONV_OK;
  bool rows_may = may_all_go_by_rows(worker, task);
  gconv_status status = gconv_task_plan(worker, task, 0, rows_may);
  if (status == GCONV_NO_MEMORY && rows_may && gconv_worker_is_on_gpu(worker))
    return go_one_by_one(worker, task);
  return status == GCONV_OK ? gconv_task_execute(worker, task, parts > 0) : status;
}

/* ---- The way --------------------------------------------------------------------------------------------------------- */

static gconv_status carry_image(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader) {
  task->image = gconv_header_of(gconv_row_reader_header(reader));
  if (worker->run->batch->nhwc)
    gconv_header_to_nchw(&task->image);
  const gconv_image *header = &task->image;
  task->items[0].frames = header->frames;
  gconv_worker_judge(worker, header);
  double bytes = gconv_whole_bytes(worker, &task->items[0], header, 1, gconv_reading_bytes(worker, reader));
  if (worker->either && worker->run->batch->memory > 0 && bytes > (double)worker->run->budget.bytes)
    worker->device = worker->cpu; /* by rows: whether that fails must not depend on when the GPU is ready */
  else
    GCONV_TRY(gconv_task_take_device(worker, task, worker->either, false));
  const char *reason;
  if (gconv_goes_by_rows(worker, &task->items[0], header, reader, bytes, &reason))
    GCONV_TRY(go_by_rows(worker, task, reader, NULL));
  if (!task->streamed && task->count > 0 && !gconv_worker_is_on_cpu(worker))
    GCONV_TRY(gconv_task_convolve_jpeg(worker, task, reader, bytes));
  if (task->streamed || task->count == 0 || task->common.executed)
    return GCONV_OK;
  return go_whole(worker, task, reader, bytes, reason);
}

static gconv_status carry_several(gconv_worker *worker, gconv_task *task) {
  task->image = task->group->header;
  double bytes = gconv_group_bytes(worker, &task->image, (double)task->count, task->group->metadata);
  GCONV_TRY(gconv_task_take_device(worker, task, worker->either, false));
  return go_whole(worker, task, NULL, bytes, NULL);
}

/* What goes by rows, or is decoded by a GPU, has no pixels to keep. */
static void keep_input(gconv_worker *worker, gconv_task *task) {
  gconv_image_free(&worker->input);
  if (task->image.data)
    worker->input = task->image;
  task->image.data = NULL;
  gconv_metadata_disown(&task->image);
}

/* Writes what was executed and not written yet; gives back what the way took. */
static gconv_status finish(gconv_worker *worker, gconv_task *task, gconv_status status) {
  if (status != GCONV_OK)
    gconv_task_keep_text(task, status);
  if (!gconv_frames_are_shared(task->frames)) /* whose files are made by the plan's headers */
    gconv_task_give_plan(worker, task);
  if (status == GCONV_OK && !task->streamed && task->count > 0) {
    status = gconv_task_write(worker, task);
    if (status != GCONV_OK)
      gconv_task_keep_text(task, status);
  }
  gconv_task_give_plan(worker, task);
  keep_input(worker, task);
  return status;
}

gconv_status gconv_worker_carry_reader(gconv_worker *worker, gconv_task *task, gconv_row_reader *reader) {
  return finish(worker, task, carry_image(worker, task, reader));
}

/* Opens the file of the only item, possibly twice. Readers warn once they are used, so nothing is told twice. */
static gconv_status open_reader(gconv_worker *worker, gconv_task *task, gconv_row_reader **reader) {
  gconv_report *report = &task->items[0].report;
  const gconv_read_options options = gconv_run_reading(worker->run);
  for (bool settled = false; !settled;) {
    gconv_worker_admit_opening(worker, report->input->path);
    double begin = gconv_now_ms();
    gconv_status status = gconv_row_reader_open(report->input->path, &options, reader);
    report->decode_ms += gconv_now_ms() - begin;
    GCONV_TRY(status);
    settled = gconv_worker_settle_opening(worker, *reader, gconv_path_is_file(report->input->file));
    if (!settled)
      gconv_row_reader_close(*reader);
  }
  return GCONV_OK;
}

static gconv_status carry_one(gconv_worker *worker, gconv_task *task) {
  gconv_row_reader *reader = NULL;
  gconv_status status = open_reader(worker, task, &reader);
  if (status != GCONV_OK)
    return finish(worker, task, status);
  status = gconv_goes_by_frames(worker, reader) ? gconv_task_carry_frames(worker, task, reader)
                                                : gconv_worker_carry_reader(worker, task, reader);
  gconv_row_reader_close(reader);
  return status;
}

static gconv_status carry(gconv_worker *worker, gconv_task *task) {
  double begin = gconv_now_ms();
  gconv_status status = task->count == 1 ? carry_one(worker, task) : finish(worker, task, carry_several(worker, task));
  task->common.total_ms += gconv_now_ms() - begin;
  return status;
}

/* ---- A group --------------------------------------------------------------------------------------------------------- */

/* Where memory is short, a plan that is large, as one that keeps all threads busy is, is kept only for a next group that can
 * use it. */
static void drop_plans(const gconv_worker *worker, size_t group) {
  const double large = 1.0 / 16; /* of all memory */
  const gconv_run *run = worker->run;
  const gconv_group *now = &run->groups[group], *next = now + 1;
  bool alike = group + 1 < run->group_count && next->count == now->count && gconv_image_alike(&next->header, &now->header);
  bool is_large = worker->cost.need.fixed > large * (double)run->budget.bytes;
  if (run->batch->memory > 0 && ((run->operation->type->shares && !alike) || is_large))
    gconv_plans_clear(run->plans);
}

gconv_status gconv_worker_process(gconv_worker *worker, size_t group) {
  gconv_run *run = worker->run;
  gconv_task task = {.group = &run->groups[group], .lock = PTHREAD_MUTEX_INITIALIZER};
  worker->explains |= group == 0;
  task.items = calloc(task.group->count, sizeof *task.items);
  if (!task.items)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < task.group->count; i++)
    task.count += gconv_item_begin(run, task.group->first + i, &task.items[task.count]);
  gconv_status status = task.count > 0 ? carry(worker, &task) : GCONV_OK;
  drop_plans(worker, group);
  gconv_worker_give_back(worker);
  if (!task.stranded)
    gconv_task_finish(run, &task, status);
  for (size_t i = 0; i < task.count && task.stranded; i++)
    free(task.items[i].wanted);
  free(task.items);
  pthread_mutex_destroy(&task.lock);
  return task.stranded ? gconv_set_error(status, task.why.text) : GCONV_OK;
}
