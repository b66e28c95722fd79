/* SPDX-License-Identifier: MIT */
#include "batch/pipeline.h"
#include "batch/devices.h"
#include "batch/worker.h"

#include <pthread.h>
#include <stdlib.h>

/* A run, shared by its workers. */
struct run {
  const gconv_batch *batch;
  gconv_batch_summary *summary;
  double begin_ms;
  int jobs;
  pthread_mutex_t lock; /* guards what is below, and *summary */
  size_t next;          /* the input that is begun next */
  bool stopped;         /* after a failure, with fail_fast, or without a device */
  gconv_status status;  /* why the whole run failed */
  gconv_message why;
  struct seat {
    gconv_worker worker;
    struct run *run;
    pthread_t thread;
    bool started;
  } * seats; /* [jobs]; the caller of gconv_batch_run() has the first */
};

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
  for (int i = 0; i < GCONV_FINDINGS; i++)
    summary->found[i] += report->found[i];
  run->stopped |= report->failed > 0 && run->batch->fail_fast;
  run->batch->report(report, run->batch->user);
  pthread_mutex_unlock(&run->lock);
}

/* There is no device: nobody has to begin another input to be told the same. */
static void give_up(struct run *run, gconv_status status, const gconv_message *why) {
  pthread_mutex_lock(&run->lock);
  run->stopped = true;
  run->status = status;
  run->why = *why;
  pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument) {
  struct seat *seat = argument;
  size_t input;
  while (take_input(seat->run, &input)) {
    gconv_report report = {0};
    gconv_texts errors = {0};
    gconv_message why;
    gconv_status status = gconv_worker_process(&seat->worker, input, &report, &errors, &why);
    if (status == GCONV_OK)
      hand_in(seat->run, &report);
    else
      give_up(seat->run, status, &why);
    gconv_texts_free(&errors);
  }
  return NULL;
}

static void seat_workers(struct run *run, gconv_devices *devices, int threads) {
  for (int i = 0; i < run->jobs; i++) {
    gconv_worker worker = {.batch = run->batch, .threads = threads, .devices = devices, .index = i};
    run->seats[i] = (struct seat){.run = run, .worker = worker};
  }
}

/* A thread that cannot be started is done without: the others take its inputs. */
static void run_workers(struct run *run) {
  for (int i = 1; i < run->jobs; i++)
    run->seats[i].started = pthread_create(&run->seats[i].thread, NULL, work, &run->seats[i]) == 0;
  work(&run->seats[0]);
  for (int i = 1; i < run->jobs; i++)
    if (run->seats[i].started)
      pthread_join(run->seats[i].thread, NULL);
  for (int i = 0; i < run->jobs; i++)
    gconv_worker_clear(&run->seats[i].worker);
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
  gconv_devices *devices = NULL;
  GCONV_TRY(gconv_devices_begin(batch, threads, run.jobs, &devices, message));
  run.seats = calloc((size_t)run.jobs, sizeof *run.seats);
  gconv_status status = run.seats ? GCONV_OK : gconv_complain_memory(message);
  if (status == GCONV_OK) {
    seat_workers(&run, devices, threads > run.jobs ? threads / run.jobs : 1);
    run_workers(&run);
    status = run.status == GCONV_OK ? GCONV_OK : gconv_complain(message, run.status, "%s", run.why.text);
  }
  for (size_t i = run.next; i < batch->inputs->count; i++)
    summary->failed += batch->outputs->first[i + 1] - batch->outputs->first[i];
  gconv_devices_summarize(devices, summary);
  gconv_devices_close(devices);
  free(run.seats);
  summary->wall_ms = gconv_worker_clock_ms() - run.begin_ms;
  return status;
}
