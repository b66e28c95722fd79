/* SPDX-License-Identifier: MIT */
#include "batch/item.h"
#include "base/clock.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Errors -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_group_keep_text(gconv_group *group, gconv_status status) {
  bool is_memory = status == GCONV_NO_MEMORY && !group->stranded;
  const char *advice = is_memory ? ": fewer --threads or --jobs, or a smaller --padding, need less" : "";
  return status == GCONV_OK ? status : gconv_complain(&group->why, status, "%s%s", gconv_last_error(), advice);
}

void gconv_item_add_error(gconv_item *item, const char *path, const char *text) {
  const char *name = gconv_path_name(path), *found = strcmp(path, "-") == 0 ? NULL : strstr(text, name);
  bool named = (found && found[strlen(name)] == ':') || strncmp(text, "standard ", 9) == 0;
  char *error = NULL;
  if (asprintf(&error, "%s%s%s", named ? "" : path, named ? "" : ": ", text) < 0)
    return;
  gconv_name_fields(error);
  gconv_texts_add(&item->outcome.errors, error);
}

void gconv_item_fail(gconv_item *item, const char *text) {
  for (size_t n = 0; n < item->count; n++)
    item->outcome.report.failed += !item->wanted || item->wanted[n];     /* NULL: there was no memory for it */
  const char *output = item->paths[0];                                   /* NULL: it could not be named */
  bool of_output = output && strncmp(text, output, strlen(output)) == 0; /* an error of the one array of all results */
  gconv_item_add_error(item, of_output ? output : item->input->path, text);
}

/* ---- Which results are wanted -------------------------------------------------------------------------------------- */

bool gconv_item_is_wanted(const gconv_item *item) {
  bool any = false;
  for (size_t n = 0; n < item->count; n++)
    any |= item->wanted[n];
  return any;
}

static void count_existing(gconv_item *item, gconv_existing existing, const char *path) {
  bool skips = existing != GCONV_EXISTING_KEEP;
  item->outcome.report.passed += skips;
  item->outcome.report.failed += !skips;
  if (!skips)
    gconv_item_add_error(item, path, "exists and is kept (--no-clobber)");
}

/* Wants the results that are not done according to the manifest. The input's print (size and checksum) is taken before the
 * input is decoded: if the file changes meanwhile, the manifest notes the old content, and the result is made again next
 * time. */
static void choose_unfinished(gconv_item *item, const gconv_manifest *manifest) {
  item->print = gconv_print_of(item->input->file);
  for (size_t n = 0; n < item->count; n++) {
    gconv_finding finding = gconv_manifest_look_up(manifest, item->paths[n], item->input->relative, item->print);
    item->outcome.report.found[finding]++;
    item->wanted[n] = finding != GCONV_FOUND_DONE;
    item->outcome.report.passed += !item->wanted[n];
  }
}

/* Returns whether the result is older than its input. A result with the time of its input is up to date, because
 * --preserve-times makes such results. */
static bool is_out_of_date(const char *result, const char *input) {
  struct stat made, given;
  return stat(result, &made) != 0 || stat(input, &given) != 0 || made.st_mtim.tv_sec < given.st_mtim.tv_sec ||
         (made.st_mtim.tv_sec == given.st_mtim.tv_sec && made.st_mtim.tv_nsec < given.st_mtim.tv_nsec);
}

/* Wants the results whose backups would replace no older backup. */
static void choose_unsaved(gconv_item *item) {
  for (size_t n = 0; n < item->count; n++) {
    item->wanted[n] = gconv_backup_check(item->paths[n]) == GCONV_OK;
    item->outcome.report.failed += !item->wanted[n];
    if (!item->wanted[n])
      gconv_item_add_error(item, item->paths[n], gconv_last_error());
  }
}

/* Wants the results that do not exist, or that replace existing ones. */
static void choose_missing(gconv_item *item, const gconv_batch *batch) {
  for (size_t n = 0; n < item->count; n++) {
    item->wanted[n] = batch->existing == GCONV_EXISTING_REPLACE || !gconv_output_exists(item->paths[n]) ||
                      (batch->existing == GCONV_EXISTING_NEWER && is_out_of_date(item->paths[n], item->input->file));
    if (!item->wanted[n] && (!batch->one_array || item->place == 0)) /* one array of all inputs is one result */
      count_existing(item, batch->existing, item->paths[n]);
  }
}

bool gconv_item_choose(const gconv_run *run, gconv_item *item) {
  if (run->batch->manifest)
    choose_unfinished(item, run->batch->manifest);
  else if (run->batch->existing == GCONV_EXISTING_BACK_UP)
    choose_unsaved(item);
  else
    choose_missing(item, run->batch);
  return gconv_item_is_wanted(item);
}

bool gconv_item_begin(gconv_run *run, size_t place, gconv_item *item) {
  const gconv_batch *batch = run->batch;
  const gconv_outputs *outputs = batch->outputs;
  size_t input = run->order[place], first = batch->one_array ? 0 : outputs->first[input];
  *item = (gconv_item){.place = place,
                       .input = &batch->inputs->items[input],
                       .paths = outputs->paths.items + first,
                       .format = outputs->formats[first],
                       .count = batch->one_array ? 1 : outputs->first[input + 1] - first};
  gconv_report *report = &item->outcome.report;
  report->input = item->input;
  report->outputs = item->paths;
  report->output_count = item->count;
  item->wanted = calloc(item->count, sizeof *item->wanted);
  for (size_t n = 0; n < item->count && !item->sent; n++)
    item->sent = gconv_path_is_sent(item->paths[n]);
  if (item->wanted && gconv_item_choose(run, item))
    return true;
  if (!item->wanted) {
    report->failed = item->count;
    gconv_item_add_error(item, item->input->path, "out of memory");
  }
  gconv_item_hand_in(run, item);
  return false;
}

/* ---- Finished results ---------------------------------------------------------------------------------------------- */

/* Notes result n in the manifest. The whole result is read for its checksum. Returns the text of an error, or NULL. A result
 * that cannot be noted is written all the same: the next --resume makes it again. */
static char *note(const gconv_run *run, const gconv_item *item, size_t n) {
  const gconv_batch *batch = run->batch;
  gconv_manifest *manifest = batch->manifest ? batch->manifest : run->record;
  const gconv_print any = {.known = true}, print = batch->manifest ? item->print : any;
  if (run->marks && batch->outputs->among)
    gconv_mark(item->paths[n]);
  bool noted = !manifest || gconv_manifest_add(manifest, item->paths[n], item->input->relative, print) == GCONV_OK;
  return noted ? NULL : strdup(gconv_last_error());
}

/* Gives result n the times of its input. Returns the text of an error, or NULL. */
static char *keep_times(const gconv_run *run, const gconv_item *item, size_t n) {
  struct stat input;
  char *trouble = NULL;
  const char *path = item->paths[n];
  if (!run->batch->preserve_times || !gconv_output_exists(path) || stat(item->input->file, &input) != 0 ||
      !S_ISREG(input.st_mode))
    return NULL;
  const struct timespec times[] = {input.st_atim, input.st_mtim};
  if (utimensat(AT_FDCWD, path, times, 0) != 0 &&
      asprintf(&trouble, "%s: cannot be given the time of its input: %s", path, strerror(errno)) < 0)
    trouble = NULL;
  return trouble;
}

void gconv_item_count(gconv_group *group, gconv_item *item, size_t n, gconv_status status) {
  const gconv_run *run = group->worker->run;
  gconv_report *report = &item->outcome.report;
  char *trouble = status == GCONV_OK ? keep_times(run, item, n) : NULL;
  if (!trouble && status == GCONV_OK)
    trouble = note(run, item, n);
  pthread_mutex_lock(&group->lock);
  if (status == GCONV_OK) {
    report->written++;
    if (run->batch->written)
      __atomic_fetch_add(run->batch->written, 1, __ATOMIC_RELAXED);
  } else if (status == GCONV_EXISTS) { /* the file was not there when this item was begun */
    count_existing(item, run->batch->existing, item->paths[n]);
  } else {
    report->failed++;
    gconv_item_add_error(item, item->paths[n], gconv_last_error());
  }
  if (trouble)
    gconv_texts_add(&item->outcome.errors, trouble);
  pthread_mutex_unlock(&group->lock);
}

/* ---- Reports ------------------------------------------------------------------------------------------------------- */

void gconv_report_add_times(gconv_report *sum, const gconv_report *times, double share) {
  gconv_timings *to = &sum->timings;
  const gconv_timings *from = &times->timings;
  double *const sums[] = {&to->prepare_ms, &to->upload_ms,  &to->kernel_ms, &to->download_ms,
                          &to->finish_ms,  &to->decode_ms,  &to->encode_ms, &sum->decode_ms,
                          &sum->plan_ms,   &sum->encode_ms, &sum->wait_ms,  &sum->total_ms};
  const double parts[] = {from->prepare_ms, from->upload_ms,  from->kernel_ms, from->download_ms,
                          from->finish_ms,  from->decode_ms,  from->encode_ms, times->decode_ms,
                          times->plan_ms,   times->encode_ms, times->wait_ms,  times->total_ms};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    *sums[i] += parts[i] * share;
}

void gconv_report_add_verification(gconv_report *sum, const gconv_verification *found, int32_t first) {
  gconv_verification *worst = &sum->verification;
  uint64_t compared = worst->compared + found->compared;
  if (!sum->verified || (worst->max_error == 0 && found->max_error > 0) || /* where no error is allowed, products are 0 */
      found->max_error * worst->allowed > worst->max_error * found->allowed) {
    *worst = *found;
    worst->frame += first;
  }
  worst->compared = compared;
}

/* Completes the report of item i by the common part of the group's reports. */
static void complete(const gconv_group *group, size_t i) {
  gconv_item *item = &group->items[i];
  gconv_report *report = &item->outcome.report;
  const gconv_report *common = &group->common;
  gconv_report_add_times(report, common, 1 / (double)group->count);
  report->executed = common->executed;
  report->cold = common->cold && i == 0;
  report->plan = common->plan;
  report->verified = common->verified;
  report->verification = common->verification;
  report->pixels = (uint64_t)item->frames * (uint64_t)group->image.height * (uint64_t)group->image.width;
  report->device_reason = group->worker->run->device_reason;
  item->outcome.losses = group->losses;
  if (i == 0 && common->executed && group->explanation)
    item->outcome.explanation = strdup(group->explanation);
  if (i == 0 && group->remark[0])
    item->outcome.remark = strdup(group->remark);
}

void gconv_outcome_free(gconv_outcome *outcome) {
  gconv_texts_free(&outcome->errors);
  free(outcome->explanation);
  free(outcome->remark);
  outcome->explanation = outcome->remark = NULL;
}

static void sum_up(gconv_batch_summary *summary, const gconv_report *report) {
  summary->begun++;
  summary->written += report->written;
  summary->passed += report->passed;
  summary->failed += report->failed;
  for (int i = 0; i < GCONV_FINDINGS; i++)
    summary->found[i] += report->found[i];
}

static void hand_out(const gconv_run *run, gconv_outcome *outcome) {
  const gconv_batch *batch = run->batch;
  gconv_report *report = &outcome->report;
  report->errors = &outcome->errors;
  report->explanation = outcome->explanation;
  report->remark = outcome->remark;
  report->elapsed_ms = gconv_now_ms() - run->begin_ms;
  if (report->written > 0) {
    gconv_warn_of_look(batch, report->input->path, &outcome->look);
    gconv_warn_of_losses(batch, report->input->path, &outcome->losses);
  }
  batch->report(report, batch->user);
  gconv_outcome_free(outcome);
}

void gconv_item_hand_in(gconv_run *run, gconv_item *item) {
  pthread_mutex_lock(&run->lock);
  sum_up(run->summary, &item->outcome.report);
  run->outcomes[item->place] = item->outcome;
  run->outcomes[item->place].done = true;
  while (run->reported < run->batch->inputs->count && run->outcomes[run->reported].done)
    hand_out(run, &run->outcomes[run->reported++]);
  pthread_mutex_unlock(&run->lock);
  free(item->wanted);
}

void gconv_group_finish(gconv_group *group, gconv_status status) {
  for (size_t i = 0; i < group->count; i++) {
    complete(group, i);
    if (status != GCONV_OK && !group->streamed)
      gconv_item_fail(&group->items[i], group->why.text);
    gconv_item_hand_in(group->worker->run, &group->items[i]);
  }
  free(group->explanation);
}
