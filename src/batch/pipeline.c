/* SPDX-License-Identifier: MIT */
#include "batch/pipeline.h"
#include "batch/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A run, shared by its workers. */
struct run {
  const gconv_batch *batch;
  gconv_batch_summary *summary;
  double begin_ms;
  int jobs;
  gconv_device *shared; /* a GPU, or the CPU of a single job; NULL if each worker has its own */
  pthread_mutex_t lock; /* guards what is below, and *summary */
  size_t next;          /* the input that is begun next */
  bool stopped;         /* after a failure, with fail_fast */
  struct seat {
    gconv_worker worker;
    struct run *run;
    pthread_t thread;
    bool started;
  } * seats; /* [jobs]; the caller of gconv_batch_run() has the first */
};

/* ---- Devices ------------------------------------------------------------------------------------------------------- */

static gconv_status complain_library(gconv_message *message, gconv_status status) {
  return gconv_complain(message, status, "%s", gconv_last_error());
}

/* Whether the algorithm that is asked for exists on this device: better said once than for every image. */
static gconv_status check_algorithm(const char *name, const char *device, gconv_message *message) {
  const gconv_algorithm_info *algorithm;
  if (!name || strcmp(name, "auto") == 0)
    return GCONV_OK;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (strcmp(algorithm->name, name) == 0 && strncmp(device, algorithm->device, strlen(algorithm->device)) == 0)
      return GCONV_OK;
  return gconv_complain(message, GCONV_BAD_ARGUMENT,
                        "--algorithm %s: there is none of this name for the device %s: see gconv algorithms", name, device);
}

/* The CPU is divided among the workers, so that each runs by itself; a GPU is one queue that all share. */
static gconv_status divide_cpu(struct run *run, int threads, gconv_message *message) {
  gconv_device_close(run->shared);
  run->shared = NULL;
  for (int i = 0; i < run->jobs; i++) {
    gconv_status status =
        gconv_device_open("cpu", threads > run->jobs ? threads / run->jobs : 1, &run->seats[i].worker.device);
    if (status != GCONV_OK)
      return complain_library(message, status);
  }
  return GCONV_OK;
}

static gconv_status open_devices(struct run *run, int threads, gconv_message *message) {
  const gconv_batch *batch = run->batch;
  gconv_status status = gconv_device_open(batch->device, threads, &run->shared);
  if (status != GCONV_OK)
    return complain_library(message, status);
  run->summary->device = *gconv_device_get_info(run->shared);
  run->summary->device_start_ms = gconv_device_start_ms(run->shared);
  GCONV_TRY(check_algorithm(batch->options.algorithm, run->summary->device.name, message));
  if (run->jobs > 1 && strcmp(run->summary->device.name, "cpu") == 0)
    return divide_cpu(run, threads, message);
  for (int i = 0; i < run->jobs; i++)
    run->seats[i].worker.device = run->shared;
  return GCONV_OK;
}

static void close_devices(struct run *run) {
  for (int i = 0; i < run->jobs; i++) {
    gconv_worker_clear(&run->seats[i].worker);
    if (run->seats[i].worker.device != run->shared)
      gconv_device_close(run->seats[i].worker.device);
  }
  gconv_device_close(run->shared);
}

/* ---- Workers ------------------------------------------------------------------------------------------------------- */

static bool take_input(struct run *run, size_t *input) {
  pthread_mutex_lock(&run->lock);
  bool taken = run->next < run->batch->inputs->count && !run->stopped;
  if (taken)
    *input = run->next++;
  pthread_mutex_unlock(&run->lock);
  return taken;
}

static void hand_in(struct run *run, gconv_report *report) {
  gconv_batch_summary *summary = run->summary;
  pthread_mutex_lock(&run->lock);
  report->elapsed_ms = gconv_worker_clock_ms() - run->begin_ms;
  summary->begun++;
  summary->written += report->written;
  summary->passed += report->passed;
  summary->failed += report->failed;
  run->stopped |= report->failed > 0 && run->batch->fail_fast;
  run->batch->report(report, run->batch->user);
  pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument) {
  struct seat *seat = argument;
  size_t input;
  while (take_input(seat->run, &input)) {
    gconv_report report = {0};
    gconv_texts errors = {0};
    gconv_worker_process(&seat->worker, input, &report, &errors);
    hand_in(seat->run, &report);
    gconv_texts_free(&errors);
  }
  return NULL;
}

/* A thread that cannot be started is done without: the others take its inputs. */
static void run_workers(struct run *run) {
  for (int i = 1; i < run->jobs; i++)
    run->seats[i].started = pthread_create(&run->seats[i].thread, NULL, work, &run->seats[i]) == 0;
  work(&run->seats[0]);
  for (int i = 1; i < run->jobs; i++)
    if (run->seats[i].started)
      pthread_join(run->seats[i].thread, NULL);
}

/* ---- The run ------------------------------------------------------------------------------------------------------- */

static int choose_jobs(const gconv_batch *batch, int threads) {
  size_t jobs = (size_t)(batch->jobs > 0 ? batch->jobs : threads);
  return (int)(jobs < batch->inputs->count ? jobs : batch->inputs->count);
}

gconv_status gconv_batch_run(const gconv_batch *batch, gconv_batch_summary *summary, gconv_message *message) {
  int threads = batch->threads > 0 ? batch->threads : gconv_processor_count();
  struct run run = {
      .batch = batch,
      .summary = summary,
      .begin_ms = gconv_worker_clock_ms(),
      .jobs = choose_jobs(batch, threads),
      .lock = PTHREAD_MUTEX_INITIALIZER,
  };
  *summary = (gconv_batch_summary){0};
  run.seats = calloc((size_t)run.jobs, sizeof *run.seats);
  if (!run.seats)
    return gconv_complain_memory(message);
  for (int i = 0; i < run.jobs; i++)
    run.seats[i] =
        (struct seat){.run = &run, .worker = {.batch = batch, .threads = threads > run.jobs ? threads / run.jobs : 1}};
  gconv_status status = open_devices(&run, threads, message);
  if (status == GCONV_OK) {
    run_workers(&run);
    for (size_t i = run.next; i < batch->inputs->count; i++)
      summary->failed += batch->outputs->first[i + 1] - batch->outputs->first[i];
  }
  close_devices(&run);
  free(run.seats);
  summary->wall_ms = gconv_worker_clock_ms() - run.begin_ms;
  return status;
}
