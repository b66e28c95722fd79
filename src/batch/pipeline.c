/* SPDX-License-Identifier: MIT */
#include "batch/pipeline.h"
#include "batch/clock.h"
#include "batch/devices.h"
#include "batch/room.h"
#include "batch/worker.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A report that waits until those of all inputs begun before are told. */
struct held {
  gconv_report report;
  gconv_texts errors; /* owned, as the texts below */
  char *explanation, *remark;
  bool done;
};

/* A run, shared by its workers. */
struct run {
  const gconv_batch *batch;
  gconv_batch_summary *summary;
  double begin_ms;
  int jobs;
  size_t *order;        /* [inputs]: in which they are begun; owned */
  pthread_mutex_t lock; /* guards what is below, and *summary */
  size_t next;          /* the place in the order that is begun next */
  bool stopped;         /* after a failure, with fail_fast, or without a device */
  gconv_status status;  /* why the whole run failed */
  gconv_message why;
  struct held *held; /* [inputs]: by their place in the order; owned */
  size_t told;       /* reports */
  double codec_ms;   /* of threads that read and wrote what they did on a CPU */
  size_t by_cpu;     /* images of that */
  struct seat {
    gconv_worker worker;
    struct run *run;
    pthread_t thread;
    bool started;
  } * seats;   /* [jobs]; the caller of gconv_batch_run() has the first */
  sem_t turns; /* at the processors */
  int kept;    /* turns that workers get when it has shown that a GPU convolves for them, and is waited for */
};

/* ---- The order ----------------------------------------------------------------------------------------------------- */

/* An input's place: a class of file sizes, of which each is half of the one before, and the number of the input. */
struct place {
  int class;
  size_t input;
};

static int compare_places(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  return x->class != y->class ? (x->class > y->class) - (x->class < y->class)
                              : (x->input > y->input) - (x->input < y->input);
}

/* Large files come first, so that the last worker is not left with one: compressed bytes tell best how long an image takes.
 * Files that are about as large keep their order, and all below 64 KiB do. Sizes that are not known come first. */
static int class_of(const char *path) {
  enum { SMALL_BITS = 16 };
  struct stat file;
  if (strcmp(path, "-") == 0 || stat(path, &file) != 0 || !S_ISREG(file.st_mode))
    return 0;
  int class = 64;
  for (uint64_t bytes = (uint64_t)file.st_size >> SMALL_BITS; bytes > 0; bytes /= 2)
    class --;
  return class;
}

static gconv_status choose_order(struct run *run, gconv_message *message) {
  size_t count = run->batch->inputs->count;
  struct place *places = calloc(count + 1, sizeof *places);
  run->order = calloc(count + 1, sizeof *run->order);
  run->held = calloc(count + 1, sizeof *run->held);
  if (!places || !run->order || !run->held) {
    free(places);
    return gconv_complain_memory(message);
  }
  for (size_t i = 0; i < count; i++)
    places[i] = (struct place){class_of(run->batch->inputs->items[i].path), i};
  qsort(places, count, sizeof *places, compare_places);
  for (size_t i = 0; i < count; i++)
    run->order[i] = places[i].input;
  free(places);
  return GCONV_OK;
}

/* ---- Reports ------------------------------------------------------------------------------------------------------- */

/* Keeps what will not be there any more when the worker goes on. Without memory, the explanation is lost, not the report. */
static void hold(struct held *held, const gconv_report *report, gconv_texts *errors) {
  held->report = *report;
  held->errors = *errors;
  *errors = (gconv_texts){0};
  held->report.errors = &held->errors;
  held->report.explanation = held->explanation = report->explanation ? strdup(report->explanation) : NULL;
  held->report.remark = held->remark = report->remark ? strdup(report->remark) : NULL;
  held->done = true;
}

static void drop(struct held *held) {
  gconv_texts_free(&held->errors);
  free(held->explanation);
  free(held->remark);
  held->explanation = held->remark = NULL;
}

static void hand_in(struct run *run, size_t place, gconv_report *report, gconv_texts *errors) {
  gconv_batch_summary *summary = run->summary;
  pthread_mutex_lock(&run->lock);
  summary->begun++;
  summary->written += report->written;
  summary->passed += report->passed;
  summary->failed += report->failed;
  for (int i = 0; i < GCONV_FINDINGS; i++)
    summary->found[i] += report->found[i];
  run->stopped |= report->failed > 0 && run->batch->fail_fast;
  if (report->executed && report->failed == 0 && strcmp(report->plan.device, "cpu") == 0) {
    run->codec_ms += report->decode_ms + report->encode_ms;
    run->by_cpu++;
  }
  hold(&run->held[place], report, errors);
  for (struct held *held; run->told < run->batch->inputs->count && (held = &run->held[run->told])->done; run->told++) {
    held->report.elapsed_ms = gconv_batch_clock_ms() - run->begin_ms;
    run->batch->report(&held->report, run->batch->user);
    drop(held);
  }
  pthread_mutex_unlock(&run->lock);
}

/* ---- Workers ------------------------------------------------------------------------------------------------------- */

static bool take_place(struct run *run, size_t *place) {
  pthread_mutex_lock(&run->lock);
  bool taken = run->next < run->batch->inputs->count && !run->stopped;
  if (taken)
    *place = run->next++;
  pthread_mutex_unlock(&run->lock);
  return taken;
}

/* Stops the run, as there is no device: others need not begin another input to be told the same. */
static void give_up(struct run *run, gconv_status status, const gconv_message *why) {
  pthread_mutex_lock(&run->lock);
  run->stopped = true;
  run->status = status;
  run->why = *why;
  pthread_mutex_unlock(&run->lock);
}

static void give_kept_turns(struct run *run, const gconv_worker *worker) {
  if (!worker->device || strcmp(gconv_device_get_info(worker->device)->name, "cpu") == 0)
    return;
  pthread_mutex_lock(&run->lock);
  for (; run->kept > 0; run->kept--)
    sem_post(&run->turns);
  pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument) {
  struct seat *seat = argument;
  size_t place;
  gconv_worker_take_turn(&seat->worker);
  while (take_place(seat->run, &place)) {
    gconv_report report = {0};
    gconv_texts errors = {0};
    gconv_message why;
    gconv_status status = gconv_worker_process(&seat->worker, seat->run->order[place], &report, &errors, &why);
    if (status == GCONV_OK)
      hand_in(seat->run, place, &report, &errors);
    else
      give_up(seat->run, status, &why);
    give_kept_turns(seat->run, &seat->worker);
    gconv_worker_yield(&seat->worker);
    gconv_texts_free(&errors);
  }
  gconv_worker_give_turn(&seat->worker);
  gconv_worker_leave(&seat->worker); /* others may wait for its memory */
  return NULL;
}

/* No more workers are at work than there are processors; those beyond are for the time in which some wait for a GPU. What
 * starts its decoder has the turn of one until then (devices.h). */
static int count_turns(const gconv_batch *batch, bool gpu_decodes, int jobs, int processors) {
  if (processors > jobs || (gpu_decodes && batch->inputs->count <= (size_t)jobs))
    return jobs;
  return gpu_decodes && processors > 1 ? processors - 1 : processors;
}

static void begin_turns(struct run *run, const gconv_devices *devices, int processors) {
  bool gpu_decodes = gconv_devices_shall_decode(devices);
  run->jobs = gconv_devices_workers(devices);
  int turns = count_turns(run->batch, gpu_decodes, run->jobs, processors);
  run->kept = gpu_decodes ? 0 : run->jobs - turns;
  for (int i = 0; i < turns; i++)
    sem_post(&run->turns);
}

static void seat_workers(struct run *run, gconv_devices *devices, gconv_plans *plans, gconv_budget *budget, int processors) {
  int threads = processors > run->jobs ? processors / run->jobs : 1;
  for (int i = 0; i < run->jobs; i++) {
    gconv_worker worker = {.batch = run->batch,
                           .threads = threads,
                           .devices = devices,
                           .plans = plans,
                           .budget = budget,
                           .turns = &run->turns,
                           .index = i};
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
}

/* ---- The run ------------------------------------------------------------------------------------------------------- */

/* If every worker had one thread, all of them were at work, and did some images each. */
static void remember_codecs(const struct run *run, const gconv_devices *devices, int threads) {
  if (run->jobs >= threads && run->by_cpu >= 2 * (size_t)run->jobs)
    gconv_devices_remember_codecs(devices, run->codec_ms / (double)run->by_cpu);
}

gconv_status gconv_batch_run(const gconv_batch *batch, gconv_batch_summary *summary, gconv_message *message) {
  int threads = gconv_threads_allowed(batch->threads);
  struct run run = {
      .batch = batch,
      .summary = summary,
      .begin_ms = gconv_batch_clock_ms(),
      .lock = PTHREAD_MUTEX_INITIALIZER,
  };
  *summary = (gconv_batch_summary){0};
  gconv_devices *devices = NULL;
  sem_init(&run.turns, 0, 0);
  GCONV_TRY(gconv_devices_begin(batch, threads, 0, threads > 1 ? &run.turns : NULL, &devices, message));
  begin_turns(&run, devices, threads);
  run.seats = calloc((size_t)run.jobs, sizeof *run.seats);
  gconv_budget *budget = gconv_budget_create(batch->memory);
  gconv_plans *plans = gconv_plans_create();
  gconv_status status = run.seats && budget && plans ? choose_order(&run, message) : gconv_complain_memory(message);
  if (status == GCONV_OK) {
    seat_workers(&run, devices, plans, budget, threads);
    run_workers(&run);
    remember_codecs(&run, devices, threads);
    status = run.status == GCONV_OK ? GCONV_OK : gconv_complain(message, run.status, "%s", run.why.text);
  }
  for (size_t i = run.next; run.order && i < batch->inputs->count; i++)
    summary->failed += batch->outputs->first[run.order[i] + 1] - batch->outputs->first[run.order[i]];
  gconv_devices_summarize(devices, summary);
  gconv_plans_free(plans);
  gconv_devices_close(devices);
  sem_destroy(&run.turns);
  gconv_budget_free(budget);
  for (size_t i = run.told; run.held && i < batch->inputs->count; i++)
    drop(&run.held[i]);
  free(run.held);
  free(run.order);
  free(run.seats);
  summary->wall_ms = gconv_batch_clock_ms() - run.begin_ms;
  return status;
}
