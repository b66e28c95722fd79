/* SPDX-License-Identifier: MIT */
/* An input on its way: which of its results are wanted, what becomes of each, and what is told of it. */
#include "base/clock.h"
#include "base/fields.h"
#include "batch/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Errors -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_task_keep_text(gconv_task *task, gconv_status status) {
  const char *advice =
      status == GCONV_NO_MEMORY && !task->stranded ? ": fewer --threads or --jobs, or a smaller --padding, need less" : "";
  return status == GCONV_OK ? status : gconv_complain(&task->why, status, "%s%s", gconv_last_error(), advice);
}

void gconv_item_add_error(gconv_item *item, const char *path, const char *text) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *found = strcmp(path, "-") == 0 ? NULL : strstr(text, name);
  bool named = (found && found[strlen(name)] == ':') || strncmp(text, "standard ", 9) == 0;
  char *error = NULL;
  if (asprintf(&error, "%s%s%s", named ? "" : path, named ? "" : ": ", text) < 0)
    return;
  gconv_name_fields(error);
  gconv_texts_add(&item->errors, error);
}

void gconv_item_fail(gconv_item *item, const char *text) {
  for (size_t n = 0; n < item->count; n++)
    item->report.failed += item->wanted[n];
  const char *output = item->paths[0];                                   /* NULL: it could not be named */
  bool of_output = output && strncmp(text, output, strlen(output)) == 0; /* of one array */
  gconv_item_add_error(item, of_output ? output : item->report.input->path, text);
}

/* ---- Which results are wanted -------------------------------------------------------------------------------------- */

static void count_existing(gconv_item *item, gconv_existing existing, const char *path) {
  if (existing == GCONV_EXISTING_SKIP) {
    item->report.passed++;
    return;
  }
  item->report.failed++;
  gconv_item_add_error(item, path, "exists and is kept (--no-clobber)");
}

/* By the manifest. The input is looked at before it is read: if it changes meanwhile, it is not taken for what was read. */
static bool choose_unfinished(gconv_item *item, const gconv_manifest *manifest) {
  const gconv_input *input = item->report.input;
  bool any = false;
  item->print = gconv_print_of(input->file);
  for (size_t n = 0; n < item->count; n++) {
    gconv_finding finding = gconv_manifest_look_up(manifest, item->paths[n], input->relative, item->print);
    item->report.found[finding]++;
    item->wanted[n] = finding != GCONV_FOUND_DONE;
    item->report.passed += !item->wanted[n];
    any |= item->wanted[n];
  }
  return any;
}

bool gconv_item_choose(const gconv_run *run, gconv_item *item) {
  gconv_existing existing = run->batch->existing;
  bool any = false;
  if (run->batch->manifest)
    return choose_unfinished(item, run->batch->manifest);
  for (size_t n = 0; n < item->count; n++) {
    item->wanted[n] = existing == GCONV_EXISTING_REPLACE || !gconv_output_exists(item->paths[n]);
    any |= item->wanted[n];
    if (!item->wanted[n] && (!run->batch->one_array || item->place == 0)) /* one array is one result */
      count_existing(item, existing, item->paths[n]);
  }
  return any;
}

bool gconv_item_begin(gconv_run *run, size_t place, gconv_item *item) {
  const gconv_batch *batch = run->batch;
  const gconv_outputs *outputs = batch->outputs;
  size_t input = run->order[place], first = batch->one_array ? 0 : outputs->first[input];
  *item = (gconv_item){.place = place,
                       .paths = outputs->paths.items + first,
                       .format = outputs->formats[first],
                       .count = batch->one_array ? 1 : outputs->first[input + 1] - first};
  item->report.input = &batch->inputs->items[input];
  item->report.outputs = item->paths;
  item->report.output_count = item->count;
  item->wanted = calloc(item->count, sizeof *item->wanted);
  for (size_t n = 0; n < item->count && !item->sent; n++)
    item->sent = gconv_path_is_sent(item->paths[n]);
  if (item->wanted && gconv_item_choose(run, item))
    return true;
  if (!item->wanted) {
    item->report.failed = item->count;
    gconv_item_add_error(item, item->report.input->path, "out of memory");
  }
  gconv_item_hand_in(run, item);
  return false;
}

/* ---- What becomes of them ------------------------------------------------------------------------------------------ */

/* Notes result n in the manifest, for which it reads all of the file. Returns the text of an error, or NULL. A result that
 * cannot be noted is a result all the same: the next --resume would make it again. */
static char *note(const gconv_run *run, const gconv_item *item, size_t n) {
  const gconv_batch *batch = run->batch;
  gconv_manifest *manifest = batch->manifest ? batch->manifest : run->record;
  const gconv_print any = {.known = true}, input = batch->manifest ? item->print : any;
  gconv_message message;
  if (run->marks && batch->outputs->among)
    gconv_outputs_mark(item->paths[n]);
  bool noted =
      !manifest || gconv_manifest_add(manifest, item->paths[n], item->report.input->relative, input, &message) == GCONV_OK;
  return noted ? NULL : strdup(message.text);
}

/* Gives result n the times of its input. Where the file system does not take them, that is told, and the result stays. */
static char *keep_times(const gconv_run *run, const gconv_item *item, size_t n) {
  struct stat input;
  char *trouble = NULL;
  const char *path = item->paths[n];
  if (!run->batch->preserve_times || !gconv_output_exists(path) || stat(item->report.input->file, &input) != 0 ||
      !S_ISREG(input.st_mode))
    return NULL;
  const struct timespec times[] = {input.st_atim, input.st_mtim};
  if (utimensat(AT_FDCWD, path, times, 0) != 0 &&
      asprintf(&trouble, "%s: cannot be given the time of its input: %s", path, strerror(errno)) < 0)
    trouble = NULL;
  return trouble;
}

void gconv_item_count(const gconv_run *run, gconv_task *task, gconv_item *item, size_t n, gconv_status status) {
  char *trouble = status == GCONV_OK ? keep_times(run, item, n) : NULL;
  if (!trouble && status == GCONV_OK)
    trouble = note(run, item, n);
  pthread_mutex_lock(&task->lock);
  if (status == GCONV_OK) {
    item->report.written++;
    if (run->batch->written)
      __atomic_fetch_add(run->batch->written, 1, __ATOMIC_RELAXED);
  } else if (status == GCONV_EXISTS) { /* it was not there when this input was begun */
    count_existing(item, run->batch->existing, item->paths[n]);
  } else {
    item->report.failed++;
    gconv_item_add_error(item, item->paths[n], gconv_last_error());
  }
  if (trouble)
    gconv_texts_add(&item->errors, trouble);
  pthread_mutex_unlock(&task->lock);
}

/* ---- What is told -------------------------------------------------------------------------------------------------- */

/* Divides the times of a group by the number of its images. */
static void share_times(gconv_report *report, double images) {
  gconv_timings *times = &report->timings;
  *times = (gconv_timings){times->prepare_ms / images,  times->upload_ms / images, times->kernel_ms / images,
                           times->download_ms / images, times->finish_ms / images, times->decode_ms / images,
                           times->encode_ms / images};
  report->plan_ms /= images;
  report->encode_ms /= images;
  report->wait_ms /= images;
  report->total_ms /= images;
}

/* Adds what all items of the task have in common to the report of item i. */
static void complete(const gconv_run *run, const gconv_task *task, size_t i) {
  const gconv_item *item = &task->items[i];
  gconv_report report = task->common, *own = &task->items[i].report;
  share_times(&report, (double)task->count);
  report.input = own->input;
  report.outputs = own->outputs;
  report.output_count = own->output_count;
  report.written = own->written;
  report.passed = own->passed;
  report.failed = own->failed;
  memcpy(report.found, own->found, sizeof report.found);
  report.decode_ms += own->decode_ms;
  report.pixels = (uint64_t)item->frames * (uint64_t)task->image.height * (uint64_t)task->image.width;
  report.cold = task->common.cold && i == 0;
  report.explanation = i == 0 && task->common.executed ? task->explanation : NULL;
  report.remark = i == 0 && task->remark[0] ? task->remark : NULL;
  report.device_reason = run->device_reason;
  *own = report;
  task->items[i].losses = task->losses;
}

/* Keeps what will not be there any more when the worker goes on. Without memory, the explanation is lost, not the report. */
static void hold(gconv_held *held, gconv_item *item) {
  held->report = item->report;
  held->losses = item->losses;
  held->look = item->look;
  held->errors = item->errors;
  item->errors = (gconv_texts){0};
  held->report.errors = &held->errors;
  held->report.explanation = held->explanation = item->report.explanation ? strdup(item->report.explanation) : NULL;
  held->report.remark = held->remark = item->report.remark ? strdup(item->report.remark) : NULL;
  held->done = true;
}

void gconv_held_free(gconv_held *held) {
  gconv_texts_free(&held->errors);
  free(held->explanation);
  free(held->remark);
  held->explanation = held->remark = NULL;
}

/* Under the lock. */
static void sum_up(gconv_run *run, const gconv_report *report) {
  gconv_batch_summary *summary = run->summary;
  summary->begun++;
  summary->written += report->written;
  summary->passed += report->passed;
  summary->failed += report->failed;
  for (int i = 0; i < GCONV_FINDINGS; i++)
    summary->found[i] += report->found[i];
  run->stopped |= report->failed > 0 && (run->batch->fail_fast || run->batch->one_array);
}

void gconv_item_hand_in(gconv_run *run, gconv_item *item) {
  pthread_mutex_lock(&run->lock);
  sum_up(run, &item->report);
  hold(&run->held[item->place], item);
  for (gconv_held *held; run->told < run->batch->inputs->count && (held = &run->held[run->told])->done; run->told++) {
    held->report.elapsed_ms = gconv_now_ms() - run->begin_ms;
    if (held->report.written > 0) {
      gconv_warn_of_look(run, held->report.input->path, &held->look);
      gconv_warn_of_losses(run, held->report.input->path, &held->losses);
    }
    run->batch->report(&held->report, run->batch->user);
    gconv_held_free(held);
  }
  pthread_mutex_unlock(&run->lock);
  free(item->wanted);
}

void gconv_task_finish(gconv_run *run, gconv_task *task, gconv_status status) {
  for (size_t i = 0; i < task->count; i++) {
    complete(run, task, i);
    if (status != GCONV_OK && !task->streamed)
      gconv_item_fail(&task->items[i], task->why.text);
    gconv_item_hand_in(run, &task->items[i]);
  }
  free(task->explanation);
}
