/* SPDX-License-Identifier: MIT */
/* The files of results. */
#include "base/clock.h"
#include "batch/layout.h"
#include "batch/pieces.h"
#include "batch/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As the batch asks for them. */
static gconv_write_options make_options(const gconv_run *run, int threads) {
  const gconv_batch *batch = run->batch;
  return (gconv_write_options){
      .format = batch->outputs->format,
      .keep_existing = batch->existing != GCONV_EXISTING_REPLACE,
      .jpeg_quality = batch->jpeg_quality,
      .png_level = batch->png_level,
      .threads = threads,
  };
}

/* Makes the folder of result n, if folders are to be made. False, and the result is counted as failed, if that cannot be. */
static bool make_folder(const gconv_run *run, gconv_task *task, gconv_item *item, size_t n) {
  gconv_message message;
  gconv_status status = GCONV_OK;
  if (run->batch->outputs->make_folders)
    status = gconv_outputs_make_folders(item->paths[n], &message);
  if (status != GCONV_OK)
    gconv_item_count(run, task, item, n, gconv_set_error(status, message.text));
  return status == GCONV_OK;
}

/* ---- By rows --------------------------------------------------------------------------------------------------------- */

gconv_row_writer *gconv_task_open_rows(gconv_worker *worker, gconv_task *task, size_t n, const gconv_image *from,
                                       int threads, gconv_threads *shared) {
  gconv_run *run = worker->run;
  gconv_item *item = &task->items[0];
  gconv_write_options options = make_options(run, threads);
  gconv_image header = *gconv_plan_output_header(task->plan, n);
  gconv_row_writer *writer = NULL;
  if (!item->wanted[n] || !make_folder(run, task, item, n))
    return NULL;
  options.shared = shared;
  header.icc = from->icc;
  header.icc_bytes = from->icc_bytes;
  header.pixels_per_metre_x = from->pixels_per_metre_x;
  header.pixels_per_metre_y = from->pixels_per_metre_y;
  if (run->batch->nhwc)
    gconv_header_to_nhwc(&header);
  gconv_status status = gconv_row_writer_open(item->paths[n], &options, &header, &writer);
  if (status != GCONV_OK)
    gconv_item_count(run, task, item, n, status);
  return writer;
}

void gconv_task_close_rows(gconv_worker *worker, gconv_task *task, size_t n, gconv_row_writer *writer, gconv_status status) {
  gconv_item *item = &task->items[0];
  if (writer && status == GCONV_OK) {
    gconv_item_count(worker->run, task, item, n, gconv_row_writer_commit(writer));
  } else if (writer) {
    gconv_row_writer_discard(writer);
    item->report.failed++;
  }
}

/* Writes `count` rows that lie one behind the other. */
static gconv_status write_rows(gconv_row_writer *writer, const gconv_image *rows, size_t count) {
  gconv_status status = GCONV_OK;
  for (size_t at = 0, step; at < count && status == GCONV_OK; at += step) {
    step = count - at < (1 << 20) ? count - at : 1 << 20;
    status = gconv_row_writer_write(writer, (uint8_t *)rows->data + at * rows->row_bytes, rows->row_bytes, (int32_t)step);
  }
  return status;
}

/* Copies planes, which may lie far apart, into an image of its own, and turns it. */
static gconv_status turn_copy(const gconv_image *rows, gconv_image *copy) {
  *copy = gconv_header_of(rows);
  GCONV_TRY(gconv_image_allocate(copy));
  for (size_t i = 0; i < (size_t)rows->channels * (size_t)rows->frames; i++)
    memcpy((uint8_t *)copy->data + i * copy->plane_bytes, (const uint8_t *)rows->data + i * rows->plane_bytes,
           copy->plane_bytes);
  gconv_status status = gconv_to_nhwc(copy);
  if (status != GCONV_OK)
    gconv_image_free(copy);
  return status;
}

static gconv_status add_turned(gconv_row_writer *writer, const gconv_image *rows) {
  gconv_image copy;
  GCONV_TRY(turn_copy(rows, &copy));
  gconv_status status = write_rows(writer, &copy, (size_t)copy.channels * (size_t)copy.height);
  gconv_image_free(&copy);
  return status;
}

gconv_status gconv_rows_add(gconv_row_writer *writer, bool nhwc, int32_t frame, const gconv_image *rows, int32_t first) {
  if (!rows->planar)
    return gconv_row_writer_write(writer, rows->data, rows->row_bytes, rows->height);
  if (nhwc)
    return add_turned(writer, rows);
  for (int32_t c = 0; c < rows->channels; c++) {
    gconv_image plane = *rows;
    plane.data = (uint8_t *)rows->data + (size_t)c * rows->plane_bytes;
    int64_t number = (int64_t)frame * rows->channels + c;
    GCONV_TRY(gconv_row_writer_is_free(writer)
                  ? gconv_row_writer_write_at(writer, number, first, plane.data, plane.row_bytes, plane.height)
                  : write_rows(writer, &plane, (size_t)plane.height));
  }
  return GCONV_OK;
}

/* ---- Whole ----------------------------------------------------------------------------------------------------------- */

/* Writing the results of a group, each of which is a turn. */
typedef struct writing {
  const gconv_worker *worker;
  gconv_task *task;
  size_t *first; /* [count + 1]: the first turn of each item; owned */
  int threads;   /* of each result */
} writing;

static gconv_status write_file(const writing *w, const char *path, const gconv_image *image) {
  const gconv_run *run = w->worker->run;
  gconv_write_options options = make_options(run, w->threads);
  if (!run->batch->nhwc || !image->planar)
    return gconv_image_write(path, &options, image);
  gconv_image copy;
  GCONV_TRY(turn_copy(image, &copy));
  gconv_status status = gconv_image_write(path, &options, &copy);
  gconv_image_free(&copy);
  return status;
}

/* Writes frame `frame` of an item's result, or all of its frames if the format holds that. */
static gconv_status write_piece(const writing *w, const gconv_item *item, const char *path, const gconv_image *result,
                                int32_t frame) {
  if (w->worker->run->batch->outputs->format->multiframe) {
    gconv_image frames = gconv_frames_of(result, item->first_frame, item->frames);
    return write_file(w, path, &frames);
  }
  gconv_image piece = {0};
  GCONV_TRY(gconv_piece_take(result, item->first_frame + frame, &piece));
  gconv_status status = write_file(w, path, &piece);
  gconv_piece_free(result, &piece);
  return status;
}

static void write_result(void *context, size_t turn, int seat) {
  const writing *w = context;
  (void)seat;
  const gconv_run *run = w->worker->run;
  size_t i = 0;
  while (turn >= w->first[i + 1])
    i++;
  gconv_item *item = &w->task->items[i];
  size_t n = turn - w->first[i], pieces = item->count / w->worker->result_count;
  if (!item->wanted[n] || !make_folder(run, w->task, item, n))
    return;
  gconv_status status = write_piece(w, item, item->paths[n], &w->worker->results[n / pieces], (int32_t)(n % pieces));
  gconv_item_count(run, w->task, item, n, status);
}

/* Whether the item's results are as many as were named. */
static bool is_named(const gconv_worker *worker, const gconv_item *item) {
  size_t pieces = worker->run->batch->outputs->format->multiframe ? 1 : (size_t)item->frames;
  return worker->result_count * pieces == item->count;
}

static gconv_status complain_of_frames(const gconv_worker *worker, gconv_task *task, const gconv_item *item) {
  return gconv_complain(&task->why, GCONV_BAD_ARGUMENT,
                        "%d frames, where %zu could be told beforehand: give it as a .npy file, or write .npy", item->frames,
                        item->count / worker->result_count);
}

static gconv_status add_to_array(gconv_worker *worker, gconv_task *task) {
  double begin = gconv_now_ms();
  int32_t frame = task->group->frame;
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; i < task->image.frames && status == GCONV_OK; i++) {
    gconv_image rows = gconv_frames_of(&worker->results[0], i, 1);
    status = gconv_joint_add(worker->run->array, &worker->results[0], frame + i, &rows, 0);
  }
  task->common.encode_ms = gconv_now_ms() - begin;
  for (size_t i = 0; i < task->count && status == GCONV_OK; i++)
    task->items[i].report.written = task->items[i].place == 0;
  return gconv_task_keep_text(task, status);
}

gconv_status gconv_task_write(gconv_worker *worker, gconv_task *task) {
  if (worker->run->array)
    return add_to_array(worker, task);
  for (size_t i = 0; i < task->count; i++)
    if (!is_named(worker, &task->items[i]))
      return complain_of_frames(worker, task, &task->items[i]);
  writing w = {worker, task, calloc(task->count + 1, sizeof *w.first), 1};
  if (!w.first)
    return gconv_complain_memory(&task->why);
  for (size_t i = 0; i < task->count; i++)
    w.first[i + 1] = w.first[i] + task->items[i].count;
  size_t turns = w.first[task->count];
  w.threads = turns < (size_t)worker->threads ? worker->threads / (int)turns : 1;
  double begin = gconv_now_ms();
  gconv_status status = gconv_worker_run(worker, turns, write_result, &w);
  task->common.encode_ms = gconv_now_ms() - begin;
  free(w.first);
  return gconv_task_keep_text(task, status);
}
