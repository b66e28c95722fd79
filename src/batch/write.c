/* SPDX-License-Identifier: MIT */
/* The files of results, and the one array of all results. */
#include "base/clock.h"
#include "base/file.h"
#include "batch/run.h"
#include "image/layout.h"
#include "image/metadata.h"

#include <stdlib.h>

/* As the batch asks for them, for results of `format`, of images of type `from`; `result` has the quality of the input, or
 * that it was compressed without loss, if that counts. */
static gconv_write_options make_options(const gconv_run *run, const gconv_format_info *format, gconv_type from,
                                        const gconv_image *result, int threads) {
  static const double white[] = {UINT8_MAX, UINT16_MAX, 1}; /* by gconv_type */
  const gconv_batch *batch = run->batch;
  bool own_quality = batch->outputs->same && batch->quality == 0;
  return (gconv_write_options){
      .format = format,
      .keep_existing = batch->existing != GCONV_EXISTING_REPLACE,
      .quality = own_quality ? result->jpeg_quality : batch->quality,
      .lossless = batch->lossless || (own_quality && result->lossless),
      .png_level = batch->png_level,
      .store = batch->store,
      .unit = run->operation->type->batches ? 1 : white[from],
      .tiff_compression = batch->tiff_compression,
      .threads = threads,
      .strip = batch->strip,
      .palette = batch->palette,
  };
}

/* Makes the folder of result n, if folders are to be made. False, and the result is counted as failed, if that cannot be. */
static bool make_folder(const gconv_run *run, gconv_task *task, gconv_item *item, size_t n) {
  gconv_message message;
  gconv_status status = gconv_outputs_prepare(run->batch->outputs, item->paths[n], &message);
  if (status != GCONV_OK)
    gconv_item_count(run, task, item, n, gconv_set_error(status, message.text));
  return status == GCONV_OK;
}

/* ---- Open files ------------------------------------------------------------------------------------------------------ */

size_t gconv_most_writers(const gconv_run *run) {
  int32_t own = gconv_files_allowed() / (run->workers > 1 ? run->workers : 1);
  return own > GCONV_WORKER_FILES ? (size_t)(own - GCONV_WORKER_FILES) + 1 : 1;
}

/* ---- By rows --------------------------------------------------------------------------------------------------------- */

/* Begins the file of result n. NULL, and the result is counted, if it is not wanted, or cannot be begun. */
static gconv_row_writer *open_file(gconv_worker *worker, gconv_task *task, size_t n, const gconv_image *from,
                                   const gconv_write_options *options) {
  gconv_run *run = worker->run;
  gconv_item *item = &task->items[0];
  gconv_image header = *gconv_plan_output_header(task->plan, n);
  gconv_row_writer *writer = NULL;
  if (!item->wanted[n] || !make_folder(run, task, item, n))
    return NULL;
  gconv_metadata_lend(&header, from);
  if (run->operation->type->batches && !run->operation->type->of_photos) { /* maps of a bank are no photo */
    header.exif = header.tags = NULL;
    header.tags_bytes = 0;
    header.xmp = header.comment = NULL;
    header.exif_bytes = header.xmp_bytes = 0;
  }
  if (run->batch->nhwc)
    gconv_header_to_nhwc(&header);
  gconv_status status = GCONV_OK;
  bool shared = gconv_frames_are_shared(task->frames), begins = !shared || gconv_frames_at(task->frames) == 0;
  if (shared)
    status = gconv_frames_take_writer(task->frames, n, &header, &writer);
  if (begins && status == GCONV_OK)
    status = gconv_row_writer_open_growing(item->paths[n], options, &header, gconv_frames_go_on(task->frames), &writer);
  if (status != GCONV_OK && !begins) {
    gconv_row_writer_discard(writer);
    writer = NULL;
  }
  if (status != GCONV_OK)
    gconv_item_count(run, task, item, n, status);
  return writer;
}

int32_t gconv_task_open_files(gconv_worker *worker, gconv_task *task, size_t first, size_t end, const gconv_image *from,
                              int threads, gconv_threads *shared, gconv_row_writer **writers) {
  gconv_write_options options = make_options(worker->run, task->items[0].format, from->type, from, threads);
  int32_t step = 1;
  options.shared = shared;
  for (size_t n = first; n < end && !worker->run->batch->one_array; n++) {
    writers[n] = open_file(worker, task, n, from, &options);
    int32_t own = writers[n] ? gconv_row_writer_step(writers[n]) : 1;
    step = own > step ? own : step;
  }
  return step;
}

/* Commits result n, or discards it if `status` is a failure, and counts it. Without a writer, it was counted before. */
static void close_file(gconv_worker *worker, gconv_task *task, size_t n, gconv_row_writer *writer, gconv_status status) {
  gconv_item *item = &task->items[0];
  if (writer && status == GCONV_OK && gconv_frames_are_shared(task->frames)) {
    gconv_frames_keep_writer(task->frames, n, writer);
  } else if (worker->run->batch->one_array && status == GCONV_OK) {
    item->report.written += item->wanted[n] && item->place == 0;
  } else if (writer && status == GCONV_OK) {
    gconv_item_count(worker->run, task, item, n, gconv_row_writer_commit(writer));
  } else {
    gconv_row_writer_discard(writer);
    item->report.failed += writer || (worker->run->batch->one_array && item->wanted[n]);
  }
}

/* Gives the first image of a pipe its final names. */
static gconv_status settle_names(const gconv_worker *worker, gconv_task *task, gconv_row_writer **writers) {
  gconv_item *item = &task->items[0];
  gconv_message message;
  gconv_status status = gconv_frames_settle_names(task->frames, writers);
  if (status != GCONV_OK)
    gconv_item_add_error(item, item->report.input->path, gconv_last_error());
  for (size_t n = 0; n < item->count && status == GCONV_OK; n++) {
    status = gconv_outputs_prepare(worker->run->batch->outputs, item->paths[n], &message);
    if (status != GCONV_OK)
      gconv_item_add_error(item, item->paths[n], message.text);
  }
  return status;
}

void gconv_task_close_files(gconv_worker *worker, gconv_task *task, size_t first, size_t end, gconv_row_writer **writers,
                            gconv_status status) {
  double begin = gconv_now_ms();
  if (status == GCONV_OK && task->frames)
    status = settle_names(worker, task, writers);
  for (size_t n = first; n < end; n++) {
    close_file(worker, task, n, writers[n], status);
    writers[n] = NULL;
  }
  task->common.encode_ms += gconv_now_ms() - begin;
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

static gconv_status add_turned(gconv_row_writer *writer, const gconv_image *rows) {
  gconv_image turned;
  GCONV_TRY(gconv_to_nhwc(rows, &turned));
  gconv_status status = write_rows(writer, &turned, (size_t)turned.channels * (size_t)turned.height);
  gconv_image_free(&turned);
  return status;
}

/* Adds rows, the first of which is row `first`, of all planes of a frame. */
static gconv_status add_rows(gconv_row_writer *writer, bool nhwc, int32_t frame, const gconv_image *rows, int32_t first) {
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

/* ---- One array of all results ---------------------------------------------------------------------------------------- */

static gconv_status open_array(gconv_run *run, const gconv_image *like) {
  const gconv_batch *batch = run->batch;
  const gconv_group *last = &run->groups[run->group_count - 1];
  gconv_write_options options = make_options(run, batch->outputs->format, GCONV_F32, like, 0);
  gconv_image header = gconv_header_of(like);
  header.frames = last->frame + last->header.frames * (int32_t)last->count;
  if (batch->nhwc)
    gconv_header_to_nhwc(&header);
  return gconv_row_writer_open(batch->outputs->paths.items[0], &options, &header, &run->array);
}

/* Thread-safe. `like`: the header of a result. */
static gconv_status add_to_frame(gconv_run *run, const gconv_image *like, int32_t frame, const gconv_image *rows,
                                 int32_t first) {
  gconv_status status = GCONV_OK;
  pthread_mutex_lock(&run->array_lock);
  if (!run->array)
    status = open_array(run, like);
  if (status == GCONV_OK)
    status = add_rows(run->array, run->batch->nhwc, frame, rows, first);
  pthread_mutex_unlock(&run->array_lock);
  return status;
}

gconv_status gconv_task_add_rows(gconv_worker *worker, const gconv_task *task, size_t n, gconv_row_writer *writer,
                                 const gconv_image *rows, int32_t first) {
  gconv_run *run = worker->run;
  if (run->batch->one_array)
    return add_to_frame(run, gconv_plan_output_header(task->plan, n), task->group->frame, rows, first);
  return add_rows(writer, run->batch->nhwc, gconv_frames_are_shared(task->frames) ? gconv_frames_at(task->frames) : 0, rows,
                  first);
}

gconv_status gconv_array_close(gconv_run *run, bool good) {
  if (run->array && good)
    return gconv_row_writer_commit(run->array);
  if (run->array)
    gconv_row_writer_discard(run->array);
  return GCONV_OK;
}

/* Writes what the group adds to it. */
static gconv_status add_to_array(gconv_worker *worker, gconv_task *task) {
  double begin = gconv_now_ms();
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; i < task->image.frames && status == GCONV_OK; i++) {
    gconv_image rows = gconv_frames_of(&worker->results[0], i, 1);
    status = add_to_frame(worker->run, &worker->results[0], task->group->frame + i, &rows, 0);
  }
  task->common.encode_ms = gconv_now_ms() - begin;
  for (size_t i = 0; i < task->count && status == GCONV_OK; i++)
    task->items[i].report.written = task->items[i].place == 0;
  return status;
}

/* ---- Whole ----------------------------------------------------------------------------------------------------------- */

/* Writing the results of a group, each of which is a turn. */
typedef struct writing {
  const gconv_worker *worker;
  gconv_task *task;
  size_t *first; /* [count + 1]: the first turn of each item; owned */
  int threads;   /* of each result */
} writing;

/* Writes an image with its channels last: pixels of a picture, or an array of that layout. */
static gconv_status write_turned(const char *path, const gconv_write_options *options, const gconv_image *image,
                                 bool picture) {
  gconv_image turned, whole = *image;
  GCONV_TRY(gconv_to_nhwc(image, &turned));
  whole.planar = false;
  whole.data = turned.data;
  whole.row_bytes = (size_t)image->width * (size_t)image->channels * gconv_type_bytes(image->type);
  whole.plane_bytes = whole.row_bytes * (size_t)image->height;
  gconv_status status = gconv_image_write(path, options, picture ? &whole : &turned);
  gconv_image_free(&turned);
  return status;
}

/* Writes frame `frame` of an item's result, or all of its frames if the format holds that. Formats of pictures have
 * interleaved pixels of up to 4 channels. */
static gconv_status write_piece(const writing *w, const gconv_item *item, const char *path, const gconv_image *result,
                                int32_t frame) {
  const gconv_run *run = w->worker->run;
  gconv_write_options options = make_options(run, item->format, w->task->image.type, result, w->threads);
  bool picture = !item->format->tensors, single = gconv_outputs_are_apart(run->batch->outputs, item->format);
  gconv_image piece = gconv_frames_of(result, item->first_frame + (single ? frame : 0), single ? 1 : item->frames);
  if (picture && piece.channels == 1)
    piece.planar = false; /* the same bytes either way */
  bool turns = piece.planar && (picture ? piece.channels <= 4 : run->batch->nhwc);
  return turns ? write_turned(path, &options, &piece, picture) : gconv_image_write(path, &options, &piece);
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

/* Writes a frame whose results share files with other frames. */
static gconv_status write_shared(gconv_worker *worker, gconv_task *task) {
  gconv_item *item = &task->items[0];
  gconv_row_writer **writers = calloc(item->count, sizeof *writers);
  if (!writers)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  gconv_task_open_files(worker, task, 0, item->count, &task->image, worker->threads, gconv_device_threads(worker->cpu),
                        writers);
  for (size_t n = 0; n < item->count; n++) {
    gconv_status status = writers[n] ? gconv_task_add_rows(worker, task, n, writers[n], &worker->results[n], 0) : GCONV_OK;
    if (status == GCONV_OK)
      continue;
    gconv_item_count(worker->run, task, item, n, status);
    gconv_row_writer_discard(writers[n]);
    writers[n] = NULL;
  }
  gconv_task_close_files(worker, task, 0, item->count, writers, GCONV_OK);
  free(writers);
  return GCONV_OK;
}

/* Whether the item's results are as many as were named. */
static gconv_status check_frames(const gconv_worker *worker, const gconv_item *item) {
  bool apart = gconv_outputs_are_apart(worker->run->batch->outputs, item->format);
  size_t pieces = apart ? (size_t)item->frames : 1;
  if (worker->result_count * pieces == item->count)
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "%d frames, where %zu could be told beforehand: give it as a file, not by a pipe, or write .npy or .tif",
                    item->frames, item->count / worker->result_count);
}

gconv_status gconv_task_write(gconv_worker *worker, gconv_task *task) {
  if (worker->run->batch->one_array)
    return add_to_array(worker, task);
  if (gconv_frames_are_shared(task->frames))
    return write_shared(worker, task);
  if (task->frames)
    GCONV_TRY(gconv_frames_settle_names(task->frames, NULL));
  for (size_t i = 0; i < task->count; i++)
    GCONV_TRY(check_frames(worker, &task->items[i]));
  writing w = {worker, task, calloc(task->count + 1, sizeof *w.first), 1};
  if (!w.first)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < task->count; i++)
    w.first[i + 1] = w.first[i] + task->items[i].count;
  size_t turns = w.first[task->count];
  w.threads = turns < (size_t)worker->threads ? worker->threads / (int)turns : 1;
  double begin = gconv_now_ms();
  gconv_threads_run(gconv_device_threads(worker->cpu), turns, write_result, &w);
  task->common.encode_ms = gconv_now_ms() - begin;
  free(w.first);
  return GCONV_OK;
}
