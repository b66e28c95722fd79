/* SPDX-License-Identifier: MIT */
/* The way of a group: choose the wanted results, take memory, decode, plan, execute, write, report. */
#include "base/clock.h"
#include "base/nodata.h"
#include "batch/carry.h"
#include "batch/cost.h"
#include "batch/execute.h"
#include "batch/files.h"
#include "batch/item.h"
#include "image/layout.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- By rows --------------------------------------------------------------------------------------------------------- */

/* Carries the only item by rows: from the reader or, if `reader` is NULL, from the pixels in memory. `because`: the reason,
 * for a remark; NULL: no remark. */
static gconv_status go_by_rows(gconv_group *group, gconv_row_reader *reader, const char *because) {
  gconv_cut cut;
  GCONV_TRY(gconv_rows_cut(group, reader, &cut));
  GCONV_TRY(gconv_worker_admit(group->worker, cut.bytes, NULL));
  if (cut.whole && reader) {
    GCONV_TRY(gconv_group_load(group, reader));
    reader = NULL;
  }
  if (group->count == 0)
    return GCONV_OK;
  GCONV_TRY(gconv_group_take_plan(group, cut.rows, false));
  if (gconv_plan_row_step(group->plan) == 0 || gconv_plan_outputs(group->plan) != group->items[0].count)
    return GCONV_OK; /* this plan cannot go by rows: the caller takes the image whole */
  if (because && group->common.cold && !group->remark[0])
    snprintf(group->remark, sizeof group->remark, "%.400s, so it goes by bands of %d rows", because,
             gconv_plan_row_step(group->plan));
  GCONV_TRY(gconv_group_stream(group, reader, cut.writers));
  gconv_group_describe(group);
  return GCONV_OK;
}

/* Carries the only item by rows from the pixels in memory, as the GPU has no memory for the whole image. */
static gconv_status go_by_rows_instead(gconv_group *group, const char *because) {
  GCONV_TRY(go_by_rows(group, NULL, because));
  return group->streamed ? GCONV_OK : gconv_set_error(GCONV_NO_MEMORY, because);
}

/* Carries each image of a group by rows. */
static gconv_status go_one_by_one(gconv_group *group) {
  gconv_message because;
  gconv_complain(&because, GCONV_NO_MEMORY, "%s", gconv_last_error());
  if (group->frame) /* a frame is reported with the other frames */
    return go_by_rows_instead(group, because.text);
  for (size_t i = 0; i < group->count; i++) {
    gconv_item *item = &group->items[i];
    gconv_group one = {
        .worker = group->worker, .range = group->range, .items = item, .count = 1, .lock = PTHREAD_MUTEX_INITIALIZER};
    double begin = gconv_now_ms();
    one.image = gconv_frames_of(&group->image, item->first_frame, item->frames);
    gconv_status status = gconv_group_keep_text(&one, go_by_rows_instead(&one, because.text));
    gconv_group_give_plan(&one);
    one.common.total_ms += gconv_now_ms() - begin;
    gconv_group_finish(&one, status);
  }
  group->count = 0; /* all items are reported */
  return GCONV_OK;
}

/* ---- Whole ----------------------------------------------------------------------------------------------------------- */

/* Returns whether all items may go by rows from memory, if a GPU has no memory for them. */
static bool may_all_go_by_rows(const gconv_group *group) {
  bool may = group->worker->run->operation->type->batches;
  for (size_t i = 0; i < group->count && may; i++)
    may = !gconv_rows_obstacle(group, &group->items[i], NULL);
  return may;
}

/* Decodes all items, and executes the plan on their pixels. `bytes`: memory for it; `reason`: why they do not go by rows. */
static gconv_status go_whole(gconv_group *group, gconv_row_reader *reader, double bytes, const char *reason) {
  gconv_worker *worker = group->worker;
  double parts = gconv_worker_is_on_cpu(worker) ? 0 : gconv_parts_bytes(group, bytes);
  GCONV_TRY(gconv_worker_admit(worker, parts > 0 ? parts : bytes, reason));
  GCONV_TRY(gconv_group_load(group, reader));
  if (group->count == 0)
    return GCONV_OK;
  bool rows_may = may_all_go_by_rows(group);
  gconv_status status = gconv_group_take_plan(group, 0, rows_may);
  if (status == GCONV_NO_MEMORY && rows_may && gconv_worker_is_on_gpu(worker))
    return go_one_by_one(group);
  return status == GCONV_OK ? gconv_group_execute_pixels(group, parts > 0) : status;
}

/* ---- The way --------------------------------------------------------------------------------------------------------- */

static gconv_status carry_image(gconv_group *group, gconv_row_reader *reader) {
  gconv_worker *worker = group->worker;
  group->image = gconv_header_of(gconv_row_reader_header(reader));
  if (worker->run->batch->nhwc)
    gconv_header_to_nchw(&group->image);
  const gconv_image *header = &group->image;
  group->items[0].frames = header->frames;
  gconv_worker_judge(worker, header);
  double bytes = gconv_whole_bytes(worker, &group->items[0], header, 1, gconv_reading_bytes(worker, reader));
  if (worker->either && worker->run->batch->memory > 0 && bytes > (double)worker->run->budget.bytes)
    worker->device = worker->cpu; /* not the GPU: whether the image fits must not depend on when the GPU is ready */
  else
    GCONV_TRY(gconv_group_take_device(group, worker->either, false));
  const char *reason;
  if (gconv_goes_by_rows(group, reader, bytes, &reason))
    GCONV_TRY(go_by_rows(group, reader, NULL));
  if (!group->streamed && group->count > 0 && !gconv_worker_is_on_cpu(worker))
    GCONV_TRY(gconv_group_convolve_jpeg(group, reader, bytes));
  if (group->streamed || group->count == 0 || group->common.executed)
    return GCONV_OK;
  return go_whole(group, reader, bytes, reason);
}

static gconv_status carry_several(gconv_group *group) {
  group->image = group->range->header;
  double bytes = gconv_group_bytes(group->worker, &group->image, (double)group->count, group->range->metadata);
  GCONV_TRY(gconv_group_take_device(group, group->worker->either, false));
  return go_whole(group, NULL, bytes, NULL);
}

/* Writes results that are not written yet, gives the plan back, and keeps the pixels' memory for the next group. */
static gconv_status finish(gconv_group *group, gconv_status status) {
  gconv_group_keep_text(group, status);
  if (!gconv_frame_is_shared(group->frame)) /* shared files get their headers from the plan */
    gconv_group_give_plan(group);
  if (status == GCONV_OK && !group->streamed && group->count > 0)
    status = gconv_group_keep_text(group, gconv_group_write(group));
  gconv_group_give_plan(group);
  gconv_holding_keep_input(&group->worker->memory, &group->image);
  return status;
}

/* Carries the only item, or the frame at which the reader is, to its results. */
static gconv_status carry_reader(gconv_group *group, gconv_row_reader *reader) {
  return finish(group, carry_image(group, reader));
}

/* Opens the file of the only item. If other readers have too much memory, closes it, waits, and opens it again. A reader
 * warns only when it is used, so that no warning comes twice. */
static gconv_status open_reader(gconv_group *group, gconv_row_reader **reader) {
  gconv_worker *worker = group->worker;
  gconv_item *item = &group->items[0];
  const char *path = item->input->path;
  for (bool settled = false; !settled;) {
    gconv_holding_open(&worker->memory, worker->run->batch->memory > 0 ? gconv_row_reader_opening_bytes(path) : 0);
    double begin = gconv_now_ms();
    gconv_status status = gconv_row_reader_open(path, &worker->run->reading, reader);
    item->outcome.report.decode_ms += gconv_now_ms() - begin;
    GCONV_TRY(status);
    uint64_t bytes = gconv_row_reader_held_bytes(*reader);
    settled = gconv_holding_settle(&worker->memory, bytes, gconv_path_is_file(item->input->file));
    if (!settled)
      gconv_row_reader_close(*reader);
  }
  return GCONV_OK;
}

static gconv_status carry_one(gconv_group *group) {
  gconv_row_reader *reader = NULL;
  gconv_status status = open_reader(group, &reader);
  if (status != GCONV_OK)
    return finish(group, status);
  status = gconv_goes_by_frames(group->worker, reader) ? gconv_group_carry_frames(group, reader, carry_reader)
                                                       : carry_reader(group, reader);
  gconv_row_reader_close(reader);
  return status;
}

static gconv_status carry(gconv_group *group) {
  double begin = gconv_now_ms();
  gconv_status status = group->count == 1 ? carry_one(group) : finish(group, carry_several(group));
  group->common.total_ms += gconv_now_ms() - begin;
  return status;
}

/* ---- A group --------------------------------------------------------------------------------------------------------- */

/* With --memory, frees idle plans that are large, or that keep all threads busy and do not suit the next group. */
static void drop_plans(const gconv_worker *worker, size_t number) {
  const double large = 1.0 / 16; /* of all memory */
  const gconv_run *run = worker->run;
  const gconv_group_range *now = &run->ranges[number], *next = now + 1;
  bool alike = number + 1 < run->range_count && next->count == now->count && gconv_image_alike(&next->header, &now->header);
  bool is_large = worker->cost.need.fixed > large * (double)run->budget.bytes;
  if (run->batch->memory > 0 && ((run->operation->type->shares && !alike) || is_large))
    gconv_plans_clear(run->plans);
}

gconv_status gconv_worker_process(gconv_worker *worker, size_t number) {
  gconv_run *run = worker->run;
  gconv_group group = {.worker = worker, .range = &run->ranges[number], .lock = PTHREAD_MUTEX_INITIALIZER};
  worker->explains |= number == 0;
  GCONV_NEW(group.items, group.range->count, "out of memory");
  for (size_t i = 0; i < group.range->count; i++)
    group.count += gconv_item_begin(run, group.range->first + i, &group.items[group.count]);
  gconv_status status = group.count > 0 ? carry(&group) : GCONV_OK;
  drop_plans(worker, number);
  gconv_holding_give_back(&worker->memory);
  if (!group.stranded)
    gconv_group_finish(&group, status);
  for (size_t i = 0; i < group.count && group.stranded; i++)
    free(group.items[i].wanted);
  free(group.items);
  pthread_mutex_destroy(&group.lock);
  return group.stranded ? gconv_set_error(status, group.why.text) : GCONV_OK;
}
