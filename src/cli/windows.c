/* SPDX-License-Identifier: MIT */
/*
 * A network over the windows of a signal. Workers, each with a thread, take batches of windows from the samples to the rows:
 *
 *     read samples, in turn  ->  windows  ->  network  ->  rows, in the order of the batches  ->  CSV, .npy, raw
 *
 * On the CPU, each worker computes its own batch with one thread, so that a batch stays in the caches of a core, and workers
 * wait for each other only to read and to write. On a GPU, and where windows or weights are large, a batch is computed at a
 * time, with all threads; three workers then read, compute and write at the same time.
 *
 * A batch is complete when it is full, or when no more samples are there: a pipe gets a row as soon as its window is
 * complete. What is computed never depends on how windows fall into batches, nor on threads.
 */
#include "cli/windows.h"
#include "base/memory.h"
#include "base/samples.h"
#include "cli/bank.h"
#include "cli/command.h"
#include "cli/learn.h"
#include "cli/rows.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  FEW_WINDOWS = 8,          /* of a plan for those that came before a batch was full */
  READ_FLOATS = 1 << 14,    /* that are read at a time */
  WAKE_MILLISECONDS = 100,  /* so often does a reader look whether it shall end, while no samples come */
  STAGES = 3,               /* reading, computing, writing */
  MOST_FLOATS = 1 << 14,    /* of a window that one thread computes */
  WEIGHTS_BYTES = 64 << 20, /* of all copies of the weights that workers may have */
};

/* How many windows a batch has. */
typedef struct batch_size {
  int32_t most;
  size_t floats; /* of a batch with all that a network makes of it, where a window has fewer */
} batch_size;

static const batch_size of_one_thread = {96, 1 << 18}; /* 1 MiB, which the near cache of a core about holds */
static const batch_size of_all_threads = {1024, 1 << 20};

/* A plan for some windows at a time; NULL until it is needed. */
typedef struct group {
  gconv_plan *plan;
  int32_t windows;
} group;

/* What computes a batch at a time. */
typedef struct engine {
  pthread_mutex_t lock; /* of a worker that computes; where each has an engine, nobody waits for it */
  group all, few;
} engine;

typedef struct worker {
  struct windows *windows;
  engine *engine;
  pthread_t thread;
  gconv_image in, out; /* the batch: a frame a window */
  size_t count;        /* windows, of windows->batch at most */
  uint64_t number;     /* of the batch, in the order of the signal */
} worker;

typedef struct windows {
  const gconv_job_settings *settings;
  const char *network_path, *input_path;
  gconv_network network;
  gconv_device *device;
  gconv_operation *operation;
  gconv_image like; /* header of a window, as the network sees it */
  gconv_samples samples;
  gconv_rows rows;
  size_t window, hop, channels, input_floats, output_floats; /* of a window: samples; to the next; floats in and out */
  bool alone;                                                /* each engine has one thread */
  int32_t batch;                                             /* windows that a batch may have */
  engine *engines;
  worker *workers;
  int engine_count, worker_count;

  /* Of the worker that reads. */
  pthread_mutex_t reading;
  float *held; /* samples that were read: held[begin .. end) */
  size_t room, begin, end;
  uint64_t skip;    /* numbers to pass over before the next window */
  uint64_t found;   /* windows */
  uint64_t batches; /* that were read */
  bool read_all;

  /* Of all. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t written; /* batches */
  bool stop;        /* a batch has failed: no more are wanted */
  gconv_status status;
  gconv_message message; /* of the first failure */
} windows;

/* Keeps the first failure; its text is the last error of this thread. */
static void keep_failure(windows *w, gconv_status status) {
  pthread_mutex_lock(&w->lock);
  if (w->status == GCONV_OK)
    w->status = gconv_complain(&w->message, status, "%s", gconv_last_error());
  pthread_mutex_unlock(&w->lock);
}

static bool is_stopped(windows *w) {
  pthread_mutex_lock(&w->lock);
  bool stopped = w->stop;
  pthread_mutex_unlock(&w->lock);
  return stopped;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------------- */

/* Puts the window at `from`, samples x channels, into the batch, channels x samples. */
static void put_window(const windows *w, const float *from, worker *b) {
  float *to = (float *)b->in.data + b->count++ * w->input_floats;
  if (w->channels == 1)
    memcpy(to, from, w->window * sizeof *to);
  for (size_t c = 0; c < w->channels && w->channels > 1; c++)
    for (size_t i = 0; i < w->window; i++)
      *to++ = from[i * w->channels + c];
}

/* Takes the windows that are complete, as many as the batch has room for. */
static void take_windows(windows *w, worker *b) {
  while (b->count < (size_t)w->batch) {
    uint64_t passed = w->skip < w->end - w->begin ? w->skip : w->end - w->begin;
    w->begin += (size_t)passed;
    w->skip -= passed;
    if (w->skip > 0 || w->end - w->begin < w->input_floats)
      return;
    put_window(w, w->held + w->begin, b);
    w->skip = (uint64_t)w->hop * w->channels;
    w->found++;
  }
}

/* Reads 1 to `most` samples as soon as some are there. *got = 0 at the end. */
static gconv_status read_samples(windows *w, size_t most, float *to, size_t *got) {
  *got = 0;
  while (!gconv_source_wait(&w->samples.source, WAKE_MILLISECONDS))
    if (is_stopped(w))
      return GCONV_OK;
  return gconv_samples_read(&w->samples, most, to, got);
}

/* Reads samples behind those that are held. *got = 0 at the end. */
static gconv_status read_more(windows *w, size_t *got) {
  if (w->room - w->end < READ_FLOATS) {
    memmove(w->held, w->held + w->begin, (w->end - w->begin) * sizeof *w->held);
    w->end -= w->begin;
    w->begin = 0;
  }
  GCONV_TRY(read_samples(w, READ_FLOATS, w->held + w->end, got));
  w->end += *got;
  return GCONV_OK;
}

/* Fills a batch, unless the signal ends, or, with a window at least, no more samples are there. */
static gconv_status fill_batch(windows *w, worker *b, bool *ended) {
  b->count = 0;
  take_windows(w, b);
  while (b->count < (size_t)w->batch && !*ended) {
    size_t got = 0;
    if (b->count > 0 && !gconv_source_wait(&w->samples.source, 0))
      return GCONV_OK;
    gconv_status status = read_more(w, &got);
    *ended = status != GCONV_OK || got == 0;
    GCONV_TRY(status);
    take_windows(w, b);
  }
  return GCONV_OK;
}

/* The same of one channel whose windows are neighbours: samples are read to where they stay. Those of a window that is not
 * complete are held for the next batch. */
static gconv_status fill_batch_in_place(windows *w, worker *b, bool *ended) {
  const size_t all = (size_t)w->batch * w->input_floats;
  float *to = b->in.data;
  size_t have = w->end;
  gconv_status status = GCONV_OK;
  memcpy(to, w->held, have * sizeof *to);
  while (have < all && !*ended && (have < w->input_floats || gconv_source_wait(&w->samples.source, 0))) {
    size_t got, most = all - have < READ_FLOATS ? all - have : READ_FLOATS;
    status = read_samples(w, most, to + have, &got);
    *ended = status != GCONV_OK || got == 0;
    have += got;
  }
  b->count = have / w->input_floats;
  w->found += b->count;
  w->end = have % w->input_floats;
  memcpy(w->held, to + b->count * w->input_floats, w->end * sizeof *to);
  return status;
}

/* Fills the next batch; false if no more are wanted, or there. Windows before a failure are still computed. */
static bool read_batch(windows *w, worker *b) {
  const bool in_place = w->channels == 1 && w->hop == w->window;
  pthread_mutex_lock(&w->reading);
  b->count = 0;
  if (!w->read_all && !is_stopped(w)) {
    gconv_status status = in_place ? fill_batch_in_place(w, b, &w->read_all) : fill_batch(w, b, &w->read_all);
    if (status != GCONV_OK)
      keep_failure(w, status);
    b->number = w->batches;
    w->batches += b->count > 0;
  }
  pthread_mutex_unlock(&w->reading);
  return b->count > 0;
}

/* ---- Computing ------------------------------------------------------------------------------------------------------- */

static gconv_status make_group(const windows *w, int32_t count, group *g) {
  gconv_image like = w->like;
  g->windows = like.frames = count;
  return gconv_plan_create(w->device, &like, w->operation, 0, &g->plan);
}

/* Some windows of a batch, as an image that has no memory of its own. */
static gconv_image part_of(const gconv_image *image, size_t first, int32_t count) {
  gconv_image part = *image;
  part.data = (float *)image->data + first * (size_t)image->channels * (image->plane_bytes / sizeof(float));
  part.frames = count;
  return part;
}

/* If more than half of a batch is filled, the plan for a whole batch computes it in one call, and zeros behind the windows,
 * too; nobody reads these results. If less is filled, the plan for a few windows is called as often as it takes. To make
 * that plan takes longer than to compute some windows in vain, as at the end of a signal. */
static gconv_status compute_with(const windows *w, engine *e, const worker *b) {
  const size_t least = (size_t)e->all.windows / (e->few.plan ? 2 : 4);
  group *g = b->count > least ? &e->all : &e->few;
  size_t each = (size_t)g->windows, rest = (each - b->count % each) % each; /* of a call; zeros of the last one */
  if (!g->plan)
    GCONV_TRY(make_group(w, g->windows, g));
  memset((float *)b->in.data + b->count * w->input_floats, 0, rest * w->input_floats * sizeof(float));
  for (size_t first = 0; first < b->count; first += each) {
    gconv_image in = part_of(&b->in, first, g->windows), out = part_of(&b->out, first, g->windows);
    GCONV_TRY(gconv_plan_execute(g->plan, &in, &out, 1, NULL));
  }
  return GCONV_OK;
}

static gconv_status compute_batch(const windows *w, const worker *b) {
  pthread_mutex_lock(&b->engine->lock);
  gconv_status status = compute_with(w, b->engine, b);
  pthread_mutex_unlock(&b->engine->lock);
  return status;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

static void wait_for_turn(windows *w, uint64_t number) {
  pthread_mutex_lock(&w->lock);
  while (w->written != number)
    pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

static void end_turn(windows *w, bool stop) {
  pthread_mutex_lock(&w->lock);
  w->stop = w->stop || stop;
  w->written++;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

/* Writes the rows of a batch when all before it are written; none behind a batch that failed. `status`: of computing it. */
static void write_batch(windows *w, const worker *b, gconv_status status) {
  wait_for_turn(w, b->number);
  bool stopped = is_stopped(w);
  if (!stopped && status == GCONV_OK)
    status = gconv_rows_write(&w->rows, b->out.data, b->count);
  if (!stopped && status != GCONV_OK)
    keep_failure(w, status);
  end_turn(w, status != GCONV_OK);
}

/* ---- Workers --------------------------------------------------------------------------------------------------------- */

static void *work(void *argument) {
  worker *b = argument;
  while (read_batch(b->windows, b))
    write_batch(b->windows, b, compute_batch(b->windows, b));
  return NULL;
}

/* If the system refuses to start a thread, those that it has started do the work; this one is the first. */
static gconv_status run_workers(windows *w) {
  int started = 1;
  while (started < w->worker_count && pthread_create(&w->workers[started].thread, NULL, work, &w->workers[started]) == 0)
    started++;
  work(&w->workers[0]);
  for (int i = 1; i < started; i++)
    pthread_join(w->workers[i].thread, NULL);
  return w->status;
}

/* ---- Before ---------------------------------------------------------------------------------------------------------- */

static gconv_status complain_library(gconv_status status, gconv_message *message) {
  return status == GCONV_OK ? status : gconv_complain(message, status, "%s", gconv_last_error());
}

static gconv_status check_words(windows *w, gconv_message *message) {
  const gconv_job_settings *settings = w->settings;
  if (settings->common.inputs.count != 1)
    return gconv_refuse(message, "--windows takes one signal: %s and %s are several", settings->common.inputs.items[0],
                        settings->common.inputs.items[1]);
  if (settings->last.filters.count != 1)
    return gconv_refuse(message, "--windows takes one network: %s and %s are several", settings->last.filters.items[0],
                        settings->last.filters.items[1]);
  if (gconv_job_settings_want_race(settings))
    return gconv_refuse(message, "--algorithm all is a race on one image: --windows takes auto, or one algorithm");
  if (gconv_devices_are_several(settings->common.device))
    return gconv_refuse(message, "--device %s: --windows uses one device", settings->common.device);
  w->input_path = settings->common.inputs.items[0];
  w->network_path = settings->last.filters.items[0];
  if (settings->common.no_clobber && strcmp(settings->common.output, "-") != 0 &&
      gconv_output_exists(settings->common.output))
    return gconv_complain(message, GCONV_EXISTS, "%s: exists, and --no-clobber keeps it", settings->common.output);
  return GCONV_OK;
}

static gconv_status read_network(windows *w, gconv_message *message) {
  if (!gconv_network_is_one(w->network_path) && !gconv_model_is_one(w->network_path))
    return gconv_refuse(message,
                        "-f %s: is no file of a network, which --windows runs: `gconv train --signal` trains one, and "
                        "`gconv bank convert` makes one of a model of PyTorch or ONNX",
                        w->network_path);
  GCONV_TRY(gconv_network_load(w->network_path, &w->network, message));
  if (w->network.height <= 1)
    return GCONV_OK;
  return gconv_refuse(message, "%s: takes images of %d x %d pixels, and no windows of a signal", w->network_path,
                      (int)w->network.width, (int)w->network.height);
}

/* Finds how the network sees a window: as samples side by side, or, as it does rows of a table, each as a channel. */
static gconv_status find_shape(windows *w, gconv_message *message) {
  const gconv_network *network = &w->network;
  const char *name = w->samples.source.name;
  bool samples = (size_t)network->channels == w->channels && (network->width == 0 || (size_t)network->width == w->window);
  bool columns = (size_t)network->channels == w->input_floats && network->width == 1;
  if (!samples && !columns && network->width == 1)
    return gconv_refuse(message, "--windows %zu: %s takes %d numbers, and a window of %s with its %zu channel%s has %zu",
                        w->window, w->network_path, (int)network->channels, name, w->channels, w->channels == 1 ? "" : "s",
                        w->input_floats);
  if (!samples && !columns && (size_t)network->channels != w->channels)
    return gconv_refuse(message, "%s: has %zu channel%s, and %s takes %d", name, w->channels, w->channels == 1 ? "" : "s",
                        w->network_path, (int)network->channels);
  if (!samples && !columns)
    return gconv_refuse(message, "--windows %zu: %s takes windows of %d samples: --windows %d", w->window, w->network_path,
                        (int)network->width, (int)network->width);
  w->like = (gconv_image){.type = GCONV_F32, .planar = true, .frames = 1, .height = 1};
  w->like.width = samples ? (int32_t)w->window : 1;
  w->like.channels = (int32_t)(w->input_floats / (size_t)w->like.width);
  return GCONV_OK;
}

/* How many windows a batch has if one has so many floats. */
static int32_t count_windows_of(const batch_size *size, size_t floats) {
  size_t count = size->floats / floats;
  return count < 1 ? 1 : count > (size_t)size->most ? size->most : (int32_t)count;
}

/* Floats of a window with all that the network makes of it: input, output, and what lies between layers, twice. */
static size_t count_floats(const windows *w, const group *g) {
  const gconv_layer_info *layer;
  size_t most = 0;
  for (size_t i = 0; (layer = gconv_plan_layer_info(g->plan, i)); i++) {
    size_t images = (size_t)layer->images / (size_t)g->windows;
    size_t floats = (size_t)layer->filters * (size_t)layer->out_height * (size_t)layer->out_width * images;
    most = floats > most ? floats : most;
  }
  return w->input_floats + w->output_floats + 2 * most;
}

/* Makes the first plan, which tells the shape of the output. If layers are as wide as windows, the first guess of how many
 * windows a batch has is right. */
static gconv_status make_plans(windows *w, gconv_image *out) {
  const batch_size *size = w->alone ? &of_one_thread : &of_all_threads;
  group *all = &w->engines[0].all;
  const int32_t guess = count_windows_of(size, 4 * w->input_floats);
  GCONV_TRY(make_group(w, guess, all));
  *out = *gconv_plan_output_header(all->plan, 0);
  w->output_floats = (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  w->batch = count_windows_of(size, count_floats(w, all));
  if (w->batch != guess) {
    gconv_plan_free(all->plan);
    all->plan = NULL;
    GCONV_TRY(make_group(w, w->batch, all));
  }
  for (int i = 0; i < w->engine_count; i++) {
    w->engines[i].all.windows = w->batch;
    w->engines[i].few.windows = w->batch < FEW_WINDOWS ? w->batch : FEW_WINDOWS;
  }
  return GCONV_OK;
}

static gconv_status make_operation(windows *w) {
  const gconv_network_options *given = &w->settings->network;
  gconv_network_options options = {.any_batch = true, .math = given->math, .without = w->settings->options.without};
  options.algorithm = w->settings->last.layer.algorithm;
  options.workspace_bytes = w->settings->workspace < SIZE_MAX / 2 ? (size_t)w->settings->workspace : SIZE_MAX / 2;
  return gconv_operation_of_network(&w->network, &options, &w->operation);
}

static size_t count_weights(const gconv_network *network) {
  size_t weights = 0;
  for (size_t i = 0; i < network->count; i++) {
    const gconv_bank *bank = network->layers[i].bank;
    weights += bank ? (size_t)bank->filters * (size_t)bank->channels * (size_t)bank->rows * (size_t)bank->columns : 0;
  }
  return weights;
}

/* Opens the device, and decides who computes. */
static gconv_status open_device(windows *w) {
  const char *name = strcmp(w->settings->common.device, "auto") == 0 ? "cpu" : w->settings->common.device;
  const int threads = gconv_threads_allowed(w->settings->common.threads);
  const size_t copies = 4 * (size_t)threads; /* an engine has two plans, of which each keeps weights in two orders */
  w->alone = strcmp(name, "cpu") == 0 && w->input_floats <= MOST_FLOATS &&
             count_weights(&w->network) <= WEIGHTS_BYTES / sizeof(float) / copies;
  w->engine_count = w->alone ? threads : 1;
  w->worker_count = w->engine_count > 1 ? w->engine_count : STAGES;
  w->engines = calloc((size_t)w->engine_count, sizeof *w->engines);
  w->workers = calloc((size_t)w->worker_count, sizeof *w->workers);
  if (!w->engines || !w->workers)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %d threads", w->worker_count);
  for (int i = 0; i < w->engine_count; i++)
    pthread_mutex_init(&w->engines[i].lock, NULL);
  return gconv_device_open(name, w->alone ? 1 : w->settings->common.threads, &w->device);
}

/* Batches have whole groups of few windows. */
static gconv_status allocate(windows *w, const gconv_image *out) {
  const int32_t few = w->engines[0].few.windows;
  for (int i = 0; i < w->worker_count; i++) {
    worker *b = &w->workers[i];
    b->windows = w;
    b->engine = &w->engines[i % w->engine_count];
    b->in = w->like;
    b->out = *out;
    b->in.frames = b->out.frames = (w->batch + few - 1) / few * few;
    GCONV_TRY(gconv_image_allocate(&b->in));
    GCONV_TRY(gconv_image_allocate(&b->out));
  }
  void *held = NULL;
  w->room = 2 * w->input_floats + 2 * READ_FLOATS;
  GCONV_TRY(gconv_allocate(w->room * sizeof *w->held, "samples", &held));
  w->held = held;
  return GCONV_OK;
}

/* The windows that the signal has; UINT64_MAX if that is not known. */
static uint64_t count_windows(const windows *w) {
  uint64_t samples = w->samples.count;
  return samples == UINT64_MAX ? UINT64_MAX : samples < w->window ? 0 : (samples - w->window) / w->hop + 1;
}

static gconv_status fail_short(const windows *w, uint64_t samples) {
  if (samples == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: has no samples", w->samples.source.name);
  return gconv_fail(GCONV_BAD_FILE, "%s: has %llu samples, and a window %zu", w->samples.source.name,
                    (unsigned long long)samples, w->window);
}

static gconv_status open_signal(windows *w) {
  GCONV_TRY(gconv_samples_open(w->input_path, w->settings->raw, &w->samples));
  w->window = (size_t)w->settings->windows.samples;
  w->hop = w->settings->windows.hop > 0 ? (size_t)w->settings->windows.hop : w->window;
  w->channels = (size_t)w->samples.channels;
  w->input_floats = w->window * w->channels;
  return count_windows(w) == 0 ? fail_short(w, w->samples.count) : GCONV_OK;
}

static gconv_status prepare(windows *w, gconv_job_settings *settings, gconv_message *message) {
  gconv_rows_format format;
  gconv_image out;
  GCONV_TRY(gconv_job_settings_finish(settings, message));
  GCONV_TRY(check_words(w, message));
  GCONV_TRY(gconv_rows_choose(settings, &format, message));
  const char *output = settings->common.output;
  char *paths[] = {settings->common.inputs.items[0], settings->last.filters.items[0]};
  gconv_sandbox_files(&settings->common, &output, 1, true);
  if (strcmp(output, "-") != 0)
    GCONV_TRY(
        gconv_data_check_output("-o", output, "csv npy f32le", "a list of outputs", &(gconv_texts){paths, 2}, message));
  GCONV_TRY(read_network(w, message));
  GCONV_TRY(complain_library(open_signal(w), message));
  GCONV_TRY(find_shape(w, message));
  GCONV_TRY(complain_library(open_device(w), message));
  GCONV_TRY(complain_library(make_operation(w), message));
  GCONV_TRY(complain_library(make_plans(w, &out), message));
  GCONV_TRY(complain_library(allocate(w, &out), message));
  char *const *names = w->network.class_count == w->output_floats ? w->network.classes : NULL;
  return complain_library(gconv_rows_open(output, format, w->output_floats, names, count_windows(w), &w->rows), message);
}

/* ---- After ----------------------------------------------------------------------------------------------------------- */

/* Tells of samples at the end that are in no window, because the last one would not be whole. */
static void say_left(const windows *w) {
  uint64_t samples = w->samples.read / w->channels, first = (w->found - 1) * w->hop;
  uint64_t seen = first + (w->hop > w->window ? w->hop : w->window);
  if (samples > seen && !w->settings->common.quiet)
    gconv_say("%s: the last %llu sample%s %s no whole window of %zu, and left out", w->samples.source.name,
              (unsigned long long)(samples - seen), samples - seen == 1 ? "" : "s", samples - seen == 1 ? "is" : "are",
              w->window);
}

static gconv_status finish(windows *w) {
  if (w->found == 0)
    return fail_short(w, w->samples.read / w->channels);
  GCONV_TRY(gconv_rows_commit(&w->rows, w->settings->common.no_clobber));
  say_left(w);
  return GCONV_OK;
}

static void release(windows *w) {
  gconv_rows_discard(&w->rows);
  for (int i = 0; i < w->worker_count && w->workers; i++) {
    gconv_image_free(&w->workers[i].in);
    gconv_image_free(&w->workers[i].out);
  }
  for (int i = 0; i < w->engine_count && w->engines; i++) {
    gconv_plan_free(w->engines[i].all.plan);
    gconv_plan_free(w->engines[i].few.plan);
    pthread_mutex_destroy(&w->engines[i].lock);
  }
  free(w->workers);
  free(w->engines);
  gconv_release(w->held);
  gconv_operation_free(w->operation);
  gconv_network_free(&w->network);
  gconv_samples_close(&w->samples);
  gconv_device_close(w->device);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  pthread_mutex_destroy(&w->reading);
}

int gconv_windows_run(gconv_job_settings *settings) {
  windows w = {.settings = settings, .samples.source.file = -1};
  pthread_mutex_init(&w.reading, NULL);
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.changed, NULL);
  gconv_set_log(settings->common.quiet ? NULL : gconv_say_warning, NULL);
  gconv_status status = prepare(&w, settings, &w.message);
  bool done_nothing = status != GCONV_OK && status != GCONV_EXISTS;
  if (status == GCONV_OK)
    status = run_workers(&w);
  if (status == GCONV_OK)
    status = complain_library(finish(&w), &w.message);
  release(&w);
  if (status == GCONV_OK)
    return GCONV_EXIT_OK;
  gconv_say("%s", w.message.text);
  return done_nothing ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}
