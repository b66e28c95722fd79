/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "batch/run.h"

#include <stdlib.h>

/* ---- Workers ------------------------------------------------------------------------------------------------------- */

typedef struct seat {
  gconv_worker worker;
  pthread_t thread;
  bool started;
} seat;

static bool take_group(gconv_run *run, size_t *group) {
  pthread_mutex_lock(&run->lock);
  bool taken = run->next < run->group_count && !run->stopped;
  if (taken)
    *group = run->next++;
  pthread_mutex_unlock(&run->lock);
  return taken;
}

/* Stops the run, as there is no device: others need not begin another group to be told the same. */
static void give_up(gconv_run *run, gconv_status status, const gconv_message *why) {
  pthread_mutex_lock(&run->lock);
  run->stopped = true;
  run->status = status;
  run->why = *why;
  pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument) {
  gconv_worker *worker = argument;
  gconv_message why;
  for (size_t group; take_group(worker->run, &group);) {
    gconv_status status = gconv_worker_process(worker, group, &why);
    if (status != GCONV_OK)
      give_up(worker->run, status, &why);
  }
  gconv_worker_leave(worker); /* others may wait for its memory */
  return NULL;
}

/* A thread that cannot be started is done without: the others take its groups. */
static gconv_status run_workers(gconv_run *run, gconv_message *message) {
  seat *seats = calloc((size_t)run->workers, sizeof *seats);
  if (!seats)
    return gconv_complain_memory(message);
  for (int i = 0; i < run->workers; i++)
    seats[i].worker = (gconv_worker){.run = run, .threads = run->threads, .index = i};
  for (int i = 1; i < run->workers; i++)
    seats[i].started = pthread_create(&seats[i].thread, NULL, work, &seats[i].worker) == 0;
  work(&seats[0].worker);
  for (int i = 1; i < run->workers; i++)
    if (seats[i].started)
      pthread_join(seats[i].thread, NULL);
  free(seats);
  return run->status == GCONV_OK ? GCONV_OK : gconv_complain(message, run->status, "%s", run->why.text);
}

/* ---- One array ------------------------------------------------------------------------------------------------------- */

/* An array whose rows must come in order is written by one worker. */
static size_t most_workers(const gconv_batch *batch) {
  bool in_order = batch->nhwc || gconv_output_is_sent(batch->outputs->paths.items[0]);
  return batch->one_array && in_order ? 1 : batch->inputs->count;
}

static gconv_status check_array(const gconv_batch *batch, gconv_message *message) {
  const char *path = batch->outputs->paths.items[0];
  if (batch->one_array && batch->existing == GCONV_EXISTING_KEEP && gconv_output_exists(path))
    return gconv_complain(message, GCONV_EXISTS, "%s: exists and is kept (--no-clobber)", path);
  return GCONV_OK;
}

/* The array appears if nothing failed. */
static gconv_status finish_array(gconv_run *run, gconv_message *message) {
  const gconv_batch *batch = run->batch;
  gconv_batch_summary *summary = run->summary;
  bool good = run->status == GCONV_OK && summary->failed == 0 && summary->begun == batch->inputs->count;
  if (!run->array)
    return GCONV_OK;
  gconv_status status = gconv_joint_close(run->array, good);
  if (!good || status != GCONV_OK)
    summary->written = 0;
  if (status == GCONV_EXISTS && batch->existing == GCONV_EXISTING_SKIP) { /* it was not there when the run began */
    summary->passed += 1;
    return GCONV_OK;
  }
  if (status == GCONV_EXISTS)
    return gconv_complain(message, status, "%s: exists and is kept (--no-clobber)", batch->outputs->paths.items[0]);
  return status == GCONV_OK ? GCONV_OK : gconv_complain(message, status, "%s", gconv_last_error());
}

/* ---- The run ------------------------------------------------------------------------------------------------------- */

static gconv_status begin(gconv_run *run, gconv_message *message) {
  const gconv_batch *batch = run->batch;
  const gconv_operation_type *type = run->operation->type;
  GCONV_TRY(check_array(batch, message));
  GCONV_TRY(gconv_devices_begin(batch, gconv_threads_allowed(batch->threads), most_workers(batch), &run->devices, message));
  run->workers = gconv_devices_workers(run->devices);
  run->threads = gconv_devices_share(run->devices);
  run->held = calloc(batch->inputs->count + 1, sizeof *run->held);
  run->budget = gconv_budget_create(batch->memory);
  run->plans = gconv_plans_create(type->shares ? 1 : 2 * (size_t)run->workers);
  if (!run->held || !run->budget || !run->plans)
    return gconv_complain_memory(message);
  gconv_status status = GCONV_OK;
  if (type->keep_exact && gconv_devices_are_open(run->devices))
    status = type->keep_exact(run->operation, &run->exact);
  if (status == GCONV_OK && batch->one_array)
    status = gconv_joint_create(run, &run->array);
  return status == GCONV_OK ? gconv_groups_make(run, message) : gconv_complain(message, status, "%s", gconv_last_error());
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
  if (run->devices)
    gconv_devices_summarize(run->devices, run->summary);
  gconv_plans_free(run->plans);
  gconv_operation_free(run->exact);
  gconv_devices_close(run->devices);
  gconv_budget_free(run->budget);
  for (size_t i = run->told; run->held && i < run->batch->inputs->count; i++)
    gconv_held_free(&run->held[i]);
  free(run->held);
  free(run->order);
  free(run->groups);
  pthread_mutex_destroy(&run->lock);
}

gconv_status gconv_batch_run(const gconv_batch *batch, gconv_batch_summary *summary, gconv_message *message) {
  gconv_run run = {.batch = batch,
                   .summary = summary,
                   .operation = batch->operation,
                   .begin_ms = gconv_now_ms(),
                   .lock = PTHREAD_MUTEX_INITIALIZER};
  *summary = (gconv_batch_summary){0};
  gconv_status status = begin(&run, message);
  if (status == GCONV_OK) {
    status = run_workers(&run, message);
    gconv_message other;
    gconv_status array = finish_array(&run, status == GCONV_OK ? message : &other);
    status = status == GCONV_OK ? array : status;
    summary->failed += count_rest(&run);
  } else {
    gconv_joint_close(run.array, false);
  }
  end(&run);
  summary->wall_ms = gconv_now_ms() - run.begin_ms;
  return status;
}
