/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "batch/run.h"
#include "image/layout.h"
#include "names/texts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Workers ------------------------------------------------------------------------------------------------------- */

typedef struct seat {
  gconv_worker worker;
  pthread_t thread;
  bool started;
} seat;

static bool take_group(gconv_run *run, size_t *group) {
  pthread_mutex_lock(&run->lock);
  run->stopped |= run->batch->stop && *run->batch->stop;
  bool taken = run->next < run->group_count && !run->stopped;
  if (taken)
    *group = run->next++;
  pthread_mutex_unlock(&run->lock);
  return taken;
}

static bool has_more(gconv_run *run) {
  pthread_mutex_lock(&run->lock);
  bool more = run->next < run->group_count && !run->stopped;
  pthread_mutex_unlock(&run->lock);
  return more;
}

/* Stops the run, as there is no device: others need not begin another group to be told the same. */
static void give_up(gconv_run *run, gconv_status status) {
  pthread_mutex_lock(&run->lock);
  run->stopped = true;
  run->status = gconv_complain(&run->why, status, "%s", gconv_last_error());
  pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument) {
  gconv_worker *worker = argument;
  gconv_run *run = worker->run;
  gconv_status status = gconv_devices_await_turn(run->devices, worker->index, &worker->cpu);
  if (status != GCONV_OK && !has_more(run)) /* others have begun all groups, and this worker is not missed */
    status = GCONV_OK;
  for (size_t group; status == GCONV_OK && take_group(run, &group);)
    status = gconv_worker_process(worker, group);
  if (status != GCONV_OK)
    give_up(run, status);
  gconv_devices_end(run->devices); /* all groups are begun */
  gconv_worker_leave(worker);      /* others may wait for its memory */
  return NULL;
}

/* A thread that cannot be started is done without: the others take its groups. */
static void run_workers(gconv_run *run) {
  seat *seats = calloc((size_t)run->workers, sizeof *seats);
  if (!seats) {
    give_up(run, gconv_set_error(GCONV_NO_MEMORY, "out of memory"));
    return;
  }
  for (int i = 0; i < run->workers; i++)
    seats[i].worker = (gconv_worker){.run = run, .threads = run->threads, .index = i};
  for (int i = 1; i < run->workers; i++)
    seats[i].started = gconv_thread_start(&seats[i].thread, work, &seats[i].worker);
  work(&seats[0].worker);
  for (int i = 1; i < run->workers; i++)
    if (seats[i].started)
      pthread_join(seats[i].thread, NULL);
  free(seats);
}

/* ---- One array ------------------------------------------------------------------------------------------------------- */

/* An array whose rows must come in order is written by one worker. */
static size_t most_workers(const gconv_batch *batch) {
  bool in_order = batch->one_array && (batch->nhwc || gconv_path_is_sent(batch->outputs->paths.items[0]));
  return in_order ? 1 : batch->inputs->count;
}

static gconv_status complain_existing(const gconv_batch *batch) {
  return gconv_fail(GCONV_EXISTS, "%s: exists and is kept (--no-clobber)", batch->outputs->paths.items[0]);
}

static gconv_status check_array(const gconv_batch *batch) {
  bool kept = batch->one_array && batch->existing == GCONV_EXISTING_KEEP;
  return kept && gconv_output_exists(batch->outputs->paths.items[0]) ? complain_existing(batch) : GCONV_OK;
}

/* The array appears if nothing failed. */
static gconv_status finish_array(gconv_run *run) {
  const gconv_batch *batch = run->batch;
  gconv_batch_summary *summary = run->summary;
  bool good = run->status == GCONV_OK && summary->failed == 0 && summary->begun == batch->inputs->count;
  gconv_status status = gconv_array_close(run, good);
  if (!good || status != GCONV_OK)
    summary->written = 0;
  if (status == GCONV_EXISTS && batch->existing == GCONV_EXISTING_SKIP) { /* it was not there when the run began */
    summary->passed += 1;
    return GCONV_OK;
  }
  return status == GCONV_EXISTS ? complain_existing(batch) : status;
}

/* ---- The run ------------------------------------------------------------------------------------------------------- */

/* The devices, and, if either of two kinds may take images, the operation that they share. */
static gconv_status begin_devices(gconv_run *run, size_t most) {
  const gconv_operation_type *type = run->operation->type;
  GCONV_TRY(gconv_devices_begin(run->batch, gconv_threads_allowed(run->batch->threads), most, &run->devices));
  run->workers = gconv_devices_workers(run->devices, &run->threads, &run->device_reason);
  return type->keep_exact && gconv_devices_are_open(run->devices) ? type->keep_exact(run->operation, &run->exact) : GCONV_OK;
}

/* Unfinished files of runs that were killed go; with a manifest, they went when it was opened. One result is no reason to
 * look through a large folder. */
static gconv_status remove_leftovers(const gconv_run *run) {
  enum { FEW = 10000, EACH = 100 };
  const gconv_texts *paths = &run->batch->outputs->paths;
  bool files = !run->batch->manifest && paths->count > 0 && !gconv_path_is_sent(paths->items[0]);
  return files ? gconv_remove_leftovers(paths->items, paths->count, FEW + EACH * paths->count, &run->summary->leftovers)
               : GCONV_OK;
}

/* The folder of the results: what it has of earlier runs, what it tells apart, and the record of results among inputs. */
static gconv_status begin_folder(gconv_run *run) {
  const gconv_batch *batch = run->batch;
  gconv_message message;
  gconv_status status = gconv_outputs_probe(batch->outputs, &run->marks, &message);
  if (status == GCONV_OK && batch->outputs->among && !run->marks && !batch->manifest)
    status = gconv_manifest_open_record(batch->outputs, &run->record, &message);
  return status == GCONV_OK ? remove_leftovers(run) : gconv_set_error(status, message.text);
}

static gconv_status begin(gconv_run *run) {
  const gconv_batch *batch = run->batch;
  GCONV_TRY(check_array(batch));
  GCONV_TRY(begin_folder(run));
  GCONV_TRY(begin_devices(run, most_workers(batch)));
  run->held = calloc(batch->inputs->count + 1, sizeof *run->held);
  bool once = run->operation->type->shares || batch->memory > 0;
  run->plans = gconv_plans_create((once ? 1 : 2) * (size_t)gconv_devices_pools(run->devices));
  if (!run->held || !run->plans)
    return gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  return gconv_groups_make(run);
}

/* The results of inputs that were not begun. */
static size_t count_rest(const gconv_run *run) {
  const gconv_outputs *outputs = run->batch->outputs;
  size_t count = 0;
  for (size_t g = run->next; g < run->group_count; g++)
    for (size_t i = 0; i < run->groups[g].count; i++) {
      size_t input = run->order[run->groups[g].first + i];
      count += run->batch->one_array ? 1 : outputs->first[input + 1] - outputs->first[input];
    }
  return count;
}

static void end(gconv_run *run) {
  gconv_plans_free(run->plans);
  gconv_operation_free(run->exact);
  gconv_devices_close(run->devices, run->summary);
  gconv_manifest_close(run->record);
  for (size_t i = run->told; run->held && i < run->batch->inputs->count; i++)
    gconv_held_free(&run->held[i]);
  free(run->held);
  free(run->order);
  free(run->groups);
  pthread_mutex_destroy(&run->lock);
  pthread_mutex_destroy(&run->array_lock);
}

static gconv_run make_run(const gconv_batch *batch, gconv_batch_summary *summary) {
  *summary = (gconv_batch_summary){0};
  return (gconv_run){.batch = batch,
                     .summary = summary,
                     .operation = batch->operation,
                     .begin_ms = gconv_now_ms(),
                     .budget = gconv_budget_begin(batch->memory, batch->operation),
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .array_lock = PTHREAD_MUTEX_INITIALIZER};
}

/* What both functions below need of a job. */
static gconv_status check_batch(const gconv_batch *batch, gconv_message *message) {
  GCONV_NEED_TOLD(batch->inputs, message);
  GCONV_NEED_TOLD(batch->outputs, message);
  GCONV_NEED_TOLD(batch->operation, message);
  GCONV_NEED_TOLD(batch->device, message);
  GCONV_TRY(gconv_check_inputs(batch->inputs, message));
  GCONV_TRY(gconv_check_outputs(batch->outputs, batch->one_array ? NULL : batch->inputs, message));
  gconv_status status = gconv_check_value("decoder", batch->decoder, GCONV_DECODER_CPU, GCONV_DECODER_AUTO);
  if (status == GCONV_OK)
    status = gconv_check_value("existing", batch->existing, GCONV_EXISTING_REPLACE, GCONV_EXISTING_SKIP);
  if (status == GCONV_OK)
    status = gconv_check_value("group", batch->group, 0, INT32_MAX);
  if (status == GCONV_OK)
    status = gconv_check_value("threads", batch->threads, 0, INT32_MAX);
  if (status == GCONV_OK)
    status = gconv_check_value("jobs", batch->jobs, 0, INT32_MAX);
  bool known =
      strcmp(batch->device, "auto") == 0 || strcmp(batch->device, "cpu") == 0 || strncmp(batch->device, "cuda", 4) == 0;
  if (status == GCONV_OK && !known)
    status = gconv_fail(GCONV_BAD_ARGUMENT, "there is no device called %s: the devices are auto, cpu, cuda and cuda:N",
                        batch->device);
  if (status == GCONV_OK && isnan(batch->tolerance))
    status = gconv_fail(GCONV_BAD_ARGUMENT, "the tolerance is not a number");
  if (status == GCONV_OK && batch->one_array && batch->outputs->paths.count == 0)
    status = gconv_fail(GCONV_BAD_ARGUMENT, "one array is to be written, and outputs has no path for it");
  return status == GCONV_OK ? GCONV_OK : gconv_complain(message, status, "%s", gconv_last_error());
}

gconv_status gconv_batch_run(const gconv_batch *batch, gconv_batch_summary *summary, gconv_message *message) {
  GCONV_NEED(message);
  GCONV_NEED_TOLD(batch, message);
  GCONV_NEED_TOLD(summary, message);
  GCONV_TRY(check_batch(batch, message));
  if (!batch->report)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "gconv_batch_run(): batch->report is NULL");
  gconv_run run = make_run(batch, summary);
  gconv_warnings_begin();
  gconv_status status = begin(&run);
  if (status == GCONV_OK) {
    run_workers(&run);
    status = batch->one_array ? finish_array(&run) : GCONV_OK;
    if (run.status != GCONV_OK)
      status = gconv_set_error(run.status, run.why.text);
    summary->failed += count_rest(&run);
  }
  if (status != GCONV_OK)
    gconv_complain(message, status, "%s", gconv_last_error());
  end(&run);
  gconv_warnings_sum(summary->warned, sizeof summary->warned);
  summary->wall_ms = gconv_now_ms() - run.begin_ms;
  return status;
}

/* ---- Without a run ------------------------------------------------------------------------------------------------- */

/* The plan on the device that the run would have, in words. */
static gconv_status explain(gconv_run *run, const gconv_image *header, char **text) {
  gconv_worker worker = {.run = run};
  gconv_plan *plan = NULL;
  GCONV_TRY(begin_devices(run, 1));
  GCONV_TRY(gconv_devices_take(run->devices, 0, false, true, &worker.device));
  GCONV_TRY(gconv_devices_cpu(run->devices, 0, &worker.cpu));
  gconv_worker_judge(&worker, header);
  GCONV_TRY(gconv_plan_create(worker.device, header, worker.either ? run->exact : run->operation, 0, &plan));
  gconv_status status = gconv_batch_explain(run->batch, plan, text);
  gconv_plan_free(plan);
  return status;
}

gconv_status gconv_batch_explain_first(const gconv_batch *batch, char **text, char reason[192], gconv_message *message) {
  GCONV_NEED(message);
  GCONV_NEED_TOLD(batch, message);
  GCONV_NEED_TOLD(text, message);
  GCONV_NEED_TOLD(reason, message);
  GCONV_TRY(check_batch(batch, message));
  if (batch->inputs->count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "there is no input to explain");
  gconv_batch only = *batch;
  gconv_batch_summary summary;
  gconv_image header = {0};
  only.only_explained = true;
  gconv_run run = make_run(&only, &summary);
  gconv_read_options options = gconv_run_reading(&run);
  gconv_status status = gconv_image_read_header_as(batch->inputs->items[0].path, &options, &header);
  if (status == GCONV_OK && batch->nhwc)
    gconv_header_to_nchw(&header);
  if (!header.planar && !batch->operation->type->batches)
    header.frames = 1; /* they are carried one at a time */
  if (status == GCONV_OK)
    status = explain(&run, &header, text);
  if (status != GCONV_OK)
    gconv_complain(message, status, "%s", gconv_last_error());
  gconv_image_free(&header);
  end(&run);
  snprintf(reason, 192, "%s", summary.device_reason);
  return status;
}
