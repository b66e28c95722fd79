/* SPDX-License-Identifier: MIT */
/* Which results of an input are wanted, and what becomes of each. */
#include "batch/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors -------------------------------------------------------------------------------------------------------- */

gconv_status gconv_task_keep_text(gconv_task *task, gconv_status status) {
  const char *advice = status == GCONV_NO_MEMORY ? ": fewer --threads or --jobs, or a smaller --padding, need less" : "";
  return status == GCONV_OK ? status : gconv_complain(&task->why, status, "%s%s", gconv_last_error(), advice);
}

void gconv_item_add_error(gconv_item *item, const char *path, const char *text) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *found = strcmp(path, "-") == 0 ? NULL : strstr(text, name);
  bool named = (found && found[strlen(name)] == ':') || strncmp(text, "standard ", 9) == 0;
  char *error = NULL;
  if (asprintf(&error, "%s%s%s", named ? "" : path, named ? "" : ": ", text) < 0)
    return;
  gconv_texts_add(&item->errors, error);
}

void gconv_item_fail(gconv_item *item, const char *text) {
  for (size_t n = 0; n < item->count; n++)
    item->report.failed += item->wanted[n];
  bool of_output = strncmp(text, item->paths[0], strlen(item->paths[0])) == 0; /* of one array */
  gconv_item_add_error(item, of_output ? item->paths[0] : item->report.input->path, text);
}

/* ---- Which are wanted ---------------------------------------------------------------------------------------------- */

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
  item->print = gconv_print_of(input->path);
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

bool gconv_item_is_sent(const gconv_item *item) {
  for (size_t n = 0; n < item->count; n++)
    if (gconv_output_is_sent(item->paths[n]))
      return true;
  return false;
}

/* ---- What becomes of them ------------------------------------------------------------------------------------------ */

/* A result that cannot be noted is one all the same: it would be made again. All of it is read for that. */
static char *note(const gconv_run *run, const gconv_item *item, size_t n) {
  gconv_manifest *manifest = run->batch->manifest;
  gconv_message message;
  bool noted = !manifest ||
               gconv_manifest_add(manifest, item->paths[n], item->report.input->relative, item->print, &message) == GCONV_OK;
  return noted ? NULL : strdup(message.text);
}

void gconv_item_count(const gconv_run *run, gconv_task *task, gconv_item *item, size_t n, gconv_status status) {
  char *trouble = status == GCONV_OK ? note(run, item, n) : NULL;
  pthread_mutex_lock(&task->lock);
  if (status == GCONV_OK) {
    item->report.written++;
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
