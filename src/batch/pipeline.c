/* SPDX-License-Identifier: MIT */
/* A run: its devices and workers, and the groups that the workers take. */
#include "base/arguments.h"
#include "base/clock.h"
#include "base/control.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/threads.h"
#include "batch/carry.h"
#include "batch/cost.h"
#include "batch/execute.h"
#include "batch/files.h"
#include "batch/item.h"
#include "image/layout.h"

#include <math.h>
#include <string.h>

/* ---- Checks of the batch ------------------------------------------------------------------------------------------- */

static gconv_status check_values(const gconv_batch *batch) {
  const char *device = batch->device;
  const gconv_write_options writing = {.quality = batch->quality,
                                       .png_level = batch->png_level,
                                       .tiff_compression = batch->tiff_compression,
                                       .store = batch->store,
                                       .palette = batch->palette};
  GCONV_TRY(gconv_check_inputs(batch->inputs));
  GCONV_TRY(gconv_check_outputs(batch->outputs, batch->one_array ? NULL : batch->inputs));
  GCONV_TRY(gconv_write_options_check(&writing));
  GCONV_TRY(gconv_check_value("decoder", batch->decoder, GCONV_DECODER_CPU, GCONV_DECODER_AUTO));
  GCONV_TRY(gconv_check_value("existing", batch->existing, GCONV_EXISTING_REPLACE, GCONV_EXISTING_BACK_UP));
  GCONV_TRY(gconv_check_value("group", batch->group, 0, INT32_MAX));
  GCONV_TRY(gconv_check_value("threads", batch->threads, 0, INT32_MAX));
  GCONV_TRY(gconv_check_value("jobs", batch->jobs, 0, INT32_MAX));
  if (strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0 && strncmp(device, "cuda", 4) != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no device called %s: the devices are auto, cpu, cuda and cuda:N",
                      device);
  if (isnan(batch->tolerance))
    return gconv_fail(GCONV_BAD_ARGUMENT, "the tolerance is not a number");
  if (batch->one_array && batch->outputs->paths.count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "one_array is set, but outputs has no path for the array");
  return GCONV_OK;
}

static gconv_status check_batch(const gconv_batch *batch, gconv_message *message) {
  GCONV_NEED_TOLD(message, batch->inputs, batch->outputs, batch->operation, batch->device);
  GCONV_TRY(gconv_tell(GCONV_CHECK_KNOWN(batch, "batch"), message));
  return gconv_tell(check_values(batch), message);
}

/* ---- Workers ------------------------------------------------------------------------------------------------------- */

typedef struct seat {
  gconv_worker worker;
  pthread_t thread;
  bool started;
} seat;

/* Returns whether another group is to be begun. The caller has the lock. */
static bool goes_on(gconv_run *run) {
  const gconv_batch *batch = run->batch;
  bool failed = run->summary->failed > 0 && (batch->fail_fast || batch->one_array);
  run->stopped |=
      failed || (batch->stop && __atomic_load_n(batch->stop, __ATOMIC_RELAXED)) || gconv_control_stops(run->control);
  return run->next < run->range_count && !run->stopped;
}

static bool take_group(gconv_run *run, size_t *number) {
  pthread_mutex_lock(&run->lock);
  bool taken = goes_on(run);
  if (taken)
    *number = run->next++;
  pthread_mutex_unlock(&run->lock);
  return taken;
}

/* Stops the run, as there is no device: other workers would fail, too. `missed`: a group was not carried. Otherwise the run
 * stops only if groups are left. */
static void give_up(gconv_run *run, gconv_status status, bool missed) {
  pthread_mutex_lock(&run->lock);
  if (missed || goes_on(run)) {
    run->stopped = true;
    run->status = gconv_complain(&run->why, status, "%s", gconv_last_error());
  }
  pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument) {
  gconv_worker *worker = argument;
  gconv_run *run = worker->run;
  gconv_control_lend(run->control);
  gconv_status status = gconv_devices_await_turn(run->devices, worker->index, &worker->cpu);
  bool began = status == GCONV_OK;
  for (size_t number; status == GCONV_OK && take_group(run, &number);) {
    (void)gconv_control_step("running a job", (double)number / (double)run->range_count); /* goes_on() sees a stop */
    status = gconv_worker_process(worker, number);
  }
  if (status != GCONV_OK)
    give_up(run, status, began);
  gconv_devices_end(run->devices); /* all groups are begun */
  gconv_holding_clear(&worker->memory);
  gconv_holding_give_back(&worker->memory); /* other workers may wait for this memory */
  gconv_control_lend(NULL);
  return NULL;
}

static void clear_plans(void *plans) {
  gconv_plans_clear(plans);
}

/* If the thread of a worker cannot be started, other workers take its groups. */
static void run_workers(gconv_run *run) {
  seat *seats = calloc((size_t)run->workers, sizeof *seats);
  if (!seats) {
    give_up(run, gconv_no_memory(), true);
    return;
  }
  for (int i = 0; i < run->workers; i++)
    seats[i].worker = (gconv_worker){.run = run,
                                     .threads = run->threads,
                                     .index = i,
                                     .memory = {.budget = &run->budget, .spare = clear_plans, .user = run->plans}};
  for (int i = 1; i < run->workers; i++)
    seats[i].started = gconv_thread_start(&seats[i].thread, work, &seats[i].worker);
  work(&seats[0].worker);
  for (int i = 1; i < run->workers; i++)
    if (seats[i].started)
      pthread_join(seats[i].thread, NULL);
  free(seats);
}

/* ---- One array ------------------------------------------------------------------------------------------------------- */

static gconv_status complain_existing(const gconv_batch *batch) {
  return gconv_fail(GCONV_EXISTS, "%s: exists and is kept (--no-clobber)", batch->outputs->paths.items[0]);
}

/* Ends the one array. Its file appears if nothing failed. */
static gconv_status finish_array(gconv_run *run) {
  const gconv_batch *batch = run->batch;
  gconv_batch_summary *summary = run->summary;
  bool good = run->status == GCONV_OK && summary->failed == 0 && summary->begun == batch->inputs->count;
  gconv_status status = gconv_array_close(run, good);
  if (!good || status != GCONV_OK)
    summary->written = 0;
  if (status == GCONV_EXISTS && batch->existing == GCONV_EXISTING_SKIP) { /* the file was not there when the run began */
    summary->passed += 1;
    return GCONV_OK;
  }
  return status == GCONV_EXISTS ? complain_existing(batch) : status;
}

/* ---- The run ------------------------------------------------------------------------------------------------------- */

/* Begins the devices for up to `most` workers, and makes the operation for each kind of device that may take part. */
static gconv_status begin_devices(gconv_run *run, size_t most) {
  GCONV_TRY(gconv_devices_begin(run->batch, gconv_threads_allowed(run->batch->threads), most, &run->devices));
  run->workers = gconv_devices_workers(run->devices, &run->threads, &run->device_reason);
  return gconv_devices_are_open(run->devices) ? gconv_operation_keep_exact(run->operation, &run->exact) : GCONV_OK;
}

/* Removes unfinished files of runs that were killed. With a manifest, gconv_manifest_open() has removed them. For few
 * results, only a part of a large folder is searched. */
static gconv_status remove_leftovers(const gconv_run *run) {
  enum { FEW = 10000, EACH = 100 };
  const gconv_texts *paths = &run->batch->outputs->paths;
  bool files = !run->batch->manifest && paths->count > 0 && !gconv_path_is_sent(paths->items[0]);
  return files ? gconv_remove_leftovers(paths->items, paths->count, FEW + EACH * paths->count, &run->summary->leftovers)
               : GCONV_OK;
}

/* Prepares the folder of the results, with the record of results that lie among the inputs. */
static gconv_status begin_folder(gconv_run *run) {
  const gconv_batch *batch = run->batch;
  bool kept = batch->one_array && batch->existing == GCONV_EXISTING_KEEP;
  if (kept && gconv_output_exists(batch->outputs->paths.items[0]))
    return complain_existing(batch);
  GCONV_TRY(gconv_outputs_probe(batch->outputs, &run->marks));
  if (batch->outputs->among && !run->marks && !batch->manifest)
    GCONV_TRY(gconv_manifest_open_record(batch->outputs, &run->record));
  return remove_leftovers(run);
}

static gconv_status begin(gconv_run *run) {
  const gconv_batch *batch = run->batch;
  bool in_order = batch->one_array &&
                  (!run->operation->type->batches || batch->nhwc || gconv_path_is_sent(batch->outputs->paths.items[0]));
  GCONV_TRY(begin_folder(run));
  GCONV_TRY(begin_devices(run, in_order ? 1 : batch->inputs->count));
  run->outcomes = calloc(batch->inputs->count + 1, sizeof *run->outcomes);
  bool once = run->operation->type->shares || batch->memory > 0;
  run->plans = gconv_plans_create((once ? 1 : 2) * (size_t)gconv_devices_pools(run->devices));
  GCONV_NEED_MEMORY(run->outcomes && run->plans, "out of memory");
  return gconv_groups_make(run);
}

/* Counts the results of inputs that were not begun. */
static size_t count_rest(const gconv_run *run) {
  const gconv_outputs *outputs = run->batch->outputs;
  size_t count = 0, end = run->range_count > 0 ? run->batch->inputs->count : 0;
  for (size_t i = run->next < run->range_count ? run->ranges[run->next].first : end; i < end; i++)
    count += run->batch->one_array ? 1 : outputs->first[run->order[i] + 1] - outputs->first[run->order[i]];
  return count;
}

static gconv_status carry_all(gconv_run *run) {
  GCONV_TRY(begin(run));
  run_workers(run);
  gconv_status status = run->batch->one_array ? finish_array(run) : GCONV_OK;
  run->summary->failed += count_rest(run);
  return run->status == GCONV_OK ? status : gconv_set_error(run->status, run->why.text);
}

static void end(gconv_run *run) {
  gconv_plans_free(run->plans);
  gconv_operation_free(run->exact);
  gconv_devices_close(run->devices, run->summary);
  gconv_manifest_close(run->record);
  for (size_t i = run->reported; run->outcomes && i < run->batch->inputs->count; i++)
    gconv_outcome_free(&run->outcomes[i]);
  free(run->outcomes);
  free(run->order);
  free(run->ranges);
  pthread_mutex_destroy(&run->lock);
  pthread_mutex_destroy(&run->array_lock);
}

static void make_run(gconv_run *run, const gconv_batch *batch, gconv_batch_summary *summary) {
  *summary = (gconv_batch_summary){0};
  *run = (gconv_run){.batch = batch,
                     .summary = summary,
                     .operation = batch->operation,
                     .control = gconv_control_here(),
                     .begin_ms = gconv_now_ms(),
                     .budget = gconv_budget_begin(batch->memory, gconv_operation_held_bytes(batch->operation)),
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .array_lock = PTHREAD_MUTEX_INITIALIZER};
  run->reading = (gconv_read_options){.max_pixels = batch->max_pixels,
                                      .unrounded = batch->unrounded,
                                      .strip = batch->strip,
                                      .planes = batch->outputs->planes,
                                      .max_bytes = batch->memory > 0 ? run->budget.bytes + 1 : 0}; /* 0: any number */
}

gconv_status gconv_batch_run(const gconv_batch *batch, gconv_batch_summary *summary, gconv_message *message) {
  GCONV_NEED_TOLD(message, batch, summary);
  GCONV_TRY(check_batch(batch, message));
  if (!batch->report)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "gconv_batch_run(): batch->report is NULL");
  gconv_run run;
  make_run(&run, batch, summary);
  gconv_warnings_begin();
  gconv_status status = gconv_tell(carry_all(&run), message);
  end(&run);
  gconv_warnings_sum(summary->warned, sizeof summary->warned);
  summary->wall_ms = gconv_now_ms() - run.begin_ms;
  return status;
}

/* ---- Without a run ------------------------------------------------------------------------------------------------- */

/* Explains the plan on the device that the run would have. */
static gconv_status explain(gconv_run *run, const gconv_image *header, char **text) {
  gconv_worker worker = {.run = run, .memory.budget = &run->budget};
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
  GCONV_NEED_TOLD(message, batch, text, reason);
  GCONV_TRY(check_batch(batch, message));
  if (batch->inputs->count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "there is no input to explain");
  gconv_batch only = *batch;
  gconv_batch_summary summary;
  GCONV_ENDED_BY(gconv_image_free) gconv_image header = {0};
  only.only_explained = true;
  gconv_run run;
  make_run(&run, &only, &summary);
  gconv_status status = gconv_image_read_header_as(batch->inputs->items[0].path, &run.reading, &header);
  if (status == GCONV_OK && batch->nhwc)
    gconv_header_to_nchw(&header);
  if (!header.planar && !batch->operation->type->batches)
    header.frames = 1; /* frames are carried one at a time */
  GCONV_THEN(status, explain(&run, &header, text));
  gconv_tell(status, message);
  end(&run);
  snprintf(reason, 192, "%s", summary.device_reason);
  return status;
}
