/* SPDX-License-Identifier: MIT */
/* The results of an input: which are wanted, and their files. */
#include "batch/clock.h"
#include "batch/pieces.h"
#include "batch/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_task_keep_text(gconv_task *task, gconv_status status) {
  const char *advice = status == GCONV_NO_MEMORY ? ": fewer --threads or --jobs, or a smaller --padding, need less" : "";
  return status == GCONV_OK ? status : gconv_complain(&task->why, status, "%s%s", gconv_last_error(), advice);
}

void gconv_task_add_error(gconv_task *task, const char *path, const char *text) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *found = strcmp(path, "-") == 0 ? NULL : strstr(text, name);
  bool named = (found && found[strlen(name)] == ':') || strncmp(text, "standard ", 9) == 0;
  char *error = NULL;
  if (asprintf(&error, "%s%s%s", named ? "" : path, named ? "" : ": ", text) < 0)
    return;
  gconv_texts_add(task->errors, error);
}

void gconv_task_fail_all(gconv_task *task, const char *path, const char *text) {
  for (size_t n = 0; n < task->count; n++)
    task->report->failed += task->wanted[n];
  gconv_task_add_error(task, path, text);
}

/* ---- Which are wanted ---------------------------------------------------------------------------------------------- */

static void count_existing(gconv_task *task, gconv_existing existing, const char *path) {
  if (existing == GCONV_EXISTING_SKIP) {
    task->report->passed++;
    return;
  }
  task->report->failed++;
  gconv_task_add_error(task, path, "exists and is kept (--no-clobber)");
}

/* By the manifest. The input is looked at before it is read: if it changes meanwhile, it is not taken for what was read. */
static bool choose_unfinished(gconv_task *task, const gconv_manifest *manifest) {
  const gconv_input *input = task->report->input;
  bool any = false;
  task->print = gconv_print_of(input->path);
  for (size_t n = 0; n < task->count; n++) {
    gconv_finding finding = gconv_manifest_look_up(manifest, task->paths[n], input->relative, task->print);
    task->report->found[finding]++;
    task->wanted[n] = finding != GCONV_FOUND_DONE;
    task->report->passed += !task->wanted[n];
    any |= task->wanted[n];
  }
  return any;
}

bool gconv_task_choose(gconv_task *task, const gconv_batch *batch) {
  gconv_existing existing = batch->existing;
  bool any = false;
  if (batch->manifest)
    return choose_unfinished(task, batch->manifest);
  for (size_t n = 0; n < task->count; n++) {
    task->wanted[n] = existing == GCONV_EXISTING_REPLACE || !gconv_output_exists(task->paths[n]);
    any |= task->wanted[n];
    if (!task->wanted[n])
      count_existing(task, existing, task->paths[n]);
  }
  return any;
}

bool gconv_task_is_sent(const gconv_task *task) {
  for (size_t n = 0; n < task->count; n++)
    if (gconv_output_is_sent(task->paths[n]))
      return true;
  return false;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------- */

gconv_write_options gconv_task_write_options(const gconv_worker *worker) {
  const gconv_batch *batch = worker->batch;
  return (gconv_write_options){
      .format = batch->outputs->format,
      .keep_existing = batch->existing != GCONV_EXISTING_REPLACE,
      .jpeg_quality = batch->jpeg_quality,
      .png_level = batch->png_level,
      .threads = worker->threads,
  };
}

static gconv_status write_file(const gconv_worker *worker, const char *path, const gconv_image *image) {
  gconv_write_options options = gconv_task_write_options(worker);
  return gconv_image_write(path, &options, image);
}

/* Writes frame `frame` of a result, or all of it if the format holds that. */
static gconv_status write_piece(const gconv_worker *worker, const char *path, const gconv_image *result, int32_t frame) {
  if (worker->batch->outputs->format->multiframe)
    return write_file(worker, path, result);
  gconv_image piece = {0};
  GCONV_TRY(gconv_piece_take(result, frame, &piece));
  gconv_status status = write_file(worker, path, &piece);
  gconv_piece_free(result, &piece);
  return status;
}

/* A result that cannot be noted is one all the same: it would be made again. */
static void note_result(const gconv_worker *worker, gconv_task *task, size_t n) {
  gconv_manifest *manifest = worker->batch->manifest;
  gconv_message message;
  if (manifest &&
      gconv_manifest_add(manifest, task->paths[n], task->report->input->relative, task->print, &message) != GCONV_OK)
    gconv_texts_add(task->errors, strdup(message.text));
}

void gconv_task_count(const gconv_worker *worker, gconv_task *task, size_t n, gconv_status status) {
  if (status == GCONV_OK) {
    task->report->written++;
    note_result(worker, task, n);
  } else if (status == GCONV_EXISTS) { /* it was not there when this input was begun */
    count_existing(task, worker->batch->existing, task->paths[n]);
  } else {
    task->report->failed++;
    gconv_task_add_error(task, task->paths[n], gconv_last_error());
  }
}

bool gconv_task_make_folder(const gconv_worker *worker, gconv_task *task, size_t n) {
  gconv_message message;
  if (!worker->batch->outputs->make_folders || gconv_outputs_make_folders(task->paths[n], &message) == GCONV_OK)
    return true;
  task->report->failed++;
  gconv_task_add_error(task, task->paths[n], message.text);
  return false;
}

static void write_result(const gconv_worker *worker, gconv_task *task, size_t n, const gconv_image *result, int32_t frame) {
  if (gconv_task_make_folder(worker, task, n))
    gconv_task_count(worker, task, n, write_piece(worker, task->paths[n], result, frame));
}

void gconv_task_write(gconv_worker *worker, gconv_task *task) {
  const char *input = task->report->input->path;
  size_t pieces = worker->batch->outputs->format->multiframe ? 1 : (size_t)task->image.frames;
  if (worker->now.result_count * pieces != task->count) {
    char text[160];
    snprintf(text, sizeof text, "%zu frames, where %zu could be told beforehand: give it as a .npy file, or write .npy",
             pieces, task->count / worker->now.result_count);
    gconv_task_fail_all(task, input, text);
    return;
  }
  double begin = gconv_batch_clock_ms();
  for (size_t n = 0; n < task->count; n++)
    if (task->wanted[n])
      write_result(worker, task, n, &worker->now.results[n / pieces], (int32_t)(n % pieces));
  task->report->encode_ms = gconv_batch_clock_ms() - begin;
}
