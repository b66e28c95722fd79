/* SPDX-License-Identifier: MIT */
/* --windows: what is done before and after the workers (window_workers.c): opening, planning, reporting. */
#include "base/clock.h"
#include "base/memory.h"
#include "cli/bank.h"
#include "cli/command.h"
#include "cli/learn.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"
#include "cli/timings.h"
#include "cli/window_workers.h"

#include <string.h>

enum {
  FEW_WINDOWS = 8,          /* windows that an engine's second plan takes at a time, for batches that are not full */
  STAGES = 3,               /* workers that share an engine: one reads, one computes, one writes */
  MOST_FLOATS = 1 << 14,    /* the most floats of a window that one thread computes */
  WEIGHTS_BYTES = 64 << 20, /* the most bytes of the copies of weights of all workers together */
};

typedef struct batch_size {
  int32_t most;
  size_t floats; /* the most floats of a batch, its layers included, unless one window has more */
} batch_size;

static const batch_size of_one_thread = {96, 1 << 18}; /* 1 MiB, about the size of a core's L2 cache */
static const batch_size of_all_threads = {1024, 1 << 20};

static gconv_status read_network(gconv_window_run *w) {
  if (!gconv_network_is_one(w->task->network) && !gconv_model_is_one(w->task->network))
    return gconv_refuse("-f %s: is no file of a network, which --windows runs: `gconv train --signal` trains one, and "
                        "`gconv bank convert` makes one of a model of PyTorch or ONNX",
                        w->task->network);
  GCONV_TRY(gconv_network_load(w->task->network, &w->network));
  if (w->network.height <= 1)
    return GCONV_OK;
  return gconv_refuse("%s: takes images of %d x %d pixels, and no windows of a signal", w->task->network,
                      (int)w->network.width, (int)w->network.height);
}

/* Finds how the network sees a window: samples side by side, or each sample as a channel, as in rows of a table. */
static gconv_status find_shape(gconv_window_run *w) {
  const gconv_network *network = &w->network;
  const char *name = w->samples.source.name;
  bool samples = (size_t)network->channels == w->channels && (network->width == 0 || (size_t)network->width == w->window);
  bool columns = (size_t)network->channels == w->input_floats && network->width == 1;
  if (!samples && !columns && network->width == 1)
    return gconv_refuse("--windows %zu: %s takes %d numbers, and a window of %s with its %zu channel%s has %zu", w->window,
                        w->task->network, (int)network->channels, name, w->channels, w->channels == 1 ? "" : "s",
                        w->input_floats);
  if (!samples && !columns && (size_t)network->channels != w->channels)
    return gconv_refuse("%s: has %zu channel%s, and %s takes %d", name, w->channels, w->channels == 1 ? "" : "s",
                        w->task->network, (int)network->channels);
  if (!samples && !columns)
    return gconv_refuse("--windows %zu: %s takes windows of %d samples: --windows %d", w->window, w->task->network,
                        (int)network->width, (int)network->width);
  w->like = (gconv_image){.type = GCONV_F32, .planar = true, .frames = 1, .height = 1};
  w->like.width = samples ? (int32_t)w->window : 1;
  w->like.channels = (int32_t)(w->input_floats / (size_t)w->like.width);
  return GCONV_OK;
}

/* Returns how many windows of `floats` floats a batch has. */
static int32_t count_windows_of(const batch_size *size, size_t floats) {
  size_t count = size->floats / floats;
  return count < 1 ? 1 : count > (size_t)size->most ? size->most : (int32_t)count;
}

/* Returns the floats that a window takes in memory: input, output, and twice the largest result of a layer. */
static size_t count_floats(const gconv_window_run *w, const gconv_window_group *g) {
  const gconv_layer_info *layer;
  size_t most = 0;
  for (size_t i = 0; (layer = gconv_plan_layer_info(g->plan, i)); i++) {
    size_t images = (size_t)layer->images / (size_t)g->windows;
    size_t floats = (size_t)layer->filters * (size_t)layer->out_height * (size_t)layer->out_width * images;
    most = floats > most ? floats : most;
  }
  return w->input_floats + w->output_floats + 2 * most;
}

/* Makes the first plan, and finds the shape of the output and the size of batches. That size follows from the plan's layers,
 * so the first plan has a guess. If the guess was wrong, makes the plan again. */
static gconv_status make_plans(gconv_window_run *w, gconv_image *out) {
  const batch_size *size = w->alone ? &of_one_thread : &of_all_threads;
  gconv_window_group *all = &w->engines[0].all;
  const int32_t guess = count_windows_of(size, 4 * w->input_floats);
  GCONV_TRY(gconv_window_make_group(w, guess, all));
  *out = *gconv_plan_output_header(all->plan, 0);
  w->output_floats = (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  w->batch = count_windows_of(size, count_floats(w, all));
  if (w->batch != guess) {
    gconv_plan_free(all->plan);
    all->plan = NULL;
    GCONV_TRY(gconv_window_make_group(w, w->batch, all));
  }
  for (int i = 0; i < w->engine_count; i++) {
    w->engines[i].all.windows = w->batch;
    w->engines[i].few.windows = w->batch < FEW_WINDOWS ? w->batch : FEW_WINDOWS;
  }
  return GCONV_OK;
}

static size_t count_weights(const gconv_network *network) {
  size_t weights = 0;
  for (size_t i = 0; i < network->count; i++)
    weights += gconv_count_weights(network->layers[i].bank);
  return weights;
}

/* Decides how many engines and workers there are, and opens the device. On the CPU, each thread has an engine if windows and
 * weights are small. Else one engine uses all threads, or a GPU. */
static gconv_status open_device(gconv_window_run *w) {
  const char *name = strcmp(w->task->common->device, "auto") == 0 ? "cpu" : w->task->common->device;
  const int threads = gconv_threads_allowed(w->task->common->threads);
  const size_t copies = 4 * (size_t)threads; /* an engine has two plans, and each keeps weights in two orders */
  w->alone = strcmp(name, "cpu") == 0 && w->input_floats <= MOST_FLOATS &&
             count_weights(&w->network) <= WEIGHTS_BYTES / sizeof(float) / copies;
  w->engine_count = w->alone ? threads : 1;
  w->worker_count = w->engine_count > 1 ? w->engine_count : STAGES;
  w->engines = calloc((size_t)w->engine_count, sizeof *w->engines);
  w->workers = calloc((size_t)w->worker_count, sizeof *w->workers);
  GCONV_NEED_MEMORY(w->engines && w->workers, "no memory for %d threads", w->worker_count);
  for (int i = 0; i < w->engine_count; i++)
    pthread_mutex_init(&w->engines[i].lock, NULL);
  return gconv_device_open(name, w->alone ? 1 : w->task->common->threads, &w->device);
}

/* Allocates the workers' batches, and room for samples that were read. The second plans take FEW_WINDOWS at a time, so a
 * batch has room for a multiple of them. */
static gconv_status allocate(gconv_window_run *w, const gconv_image *out) {
  const int32_t few = w->engines[0].few.windows;
  for (int i = 0; i < w->worker_count; i++) {
    gconv_window_worker *b = &w->workers[i];
    b->windows = w;
    b->engine = &w->engines[i % w->engine_count];
    b->in = w->like;
    b->out = *out;
    b->in.frames = b->out.frames = (w->batch + few - 1) / few * few;
    GCONV_TRY(gconv_image_allocate(&b->in));
    GCONV_TRY(gconv_image_allocate(&b->out));
  }
  void *held = NULL;
  w->room = 2 * w->input_floats + 2 * GCONV_READ_FLOATS;
  GCONV_TRY(gconv_allocate(w->room * sizeof *w->held, "samples", &held));
  w->held = held;
  return GCONV_OK;
}

/* Returns how many windows the signal has; UINT64_MAX if its length is not known. */
static uint64_t count_windows(const gconv_window_run *w) {
  uint64_t samples = w->samples.count;
  return samples == UINT64_MAX ? UINT64_MAX : samples < w->window ? 0 : (samples - w->window) / w->hop + 1;
}

static gconv_status fail_short(const gconv_window_run *w, uint64_t samples) {
  if (samples == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: has no samples", w->samples.source.name);
  return gconv_fail(GCONV_BAD_FILE, "%s: has %llu samples, and a window has %zu", w->samples.source.name,
                    (unsigned long long)samples, w->window);
}

static gconv_status open_signal(gconv_window_run *w) {
  GCONV_TRY(gconv_samples_open(w->task->common->inputs.items[0], w->task->raw, &w->samples));
  w->window = (size_t)w->task->windows.samples;
  w->hop = w->task->windows.hop > 0 ? (size_t)w->task->windows.hop : w->window;
  w->channels = (size_t)w->samples.channels;
  w->input_floats = w->window * w->channels;
  return count_windows(w) == 0 ? fail_short(w, w->samples.count) : GCONV_OK;
}

static gconv_status prepare(gconv_window_run *w) {
  const gconv_common *common = w->task->common;
  const char *output = common->output;
  char *paths[] = {common->inputs.items[0], (char *)w->task->network};
  gconv_rows_format format = w->task->format;
  gconv_image out;
  if (common->no_clobber && strcmp(output, "-") != 0 && gconv_output_exists(output))
    return gconv_fail(GCONV_EXISTS, "%s: exists, and --no-clobber keeps it", output);
  GCONV_TRY(gconv_rows_choose(w->task->naming, &format));
  gconv_sandbox_files(common, &output, 1, true);
  if (strcmp(output, "-") != 0)
    GCONV_TRY(gconv_data_check_output("-o", output, "csv npy f32le", "a list of outputs", &(gconv_texts){paths, 2}));
  GCONV_TRY(read_network(w));
  GCONV_TRY(open_signal(w));
  GCONV_TRY(find_shape(w));
  GCONV_TRY(open_device(w));
  GCONV_TRY(gconv_operation_of_network(&w->network, &w->task->options, &w->operation));
  GCONV_TRY(make_plans(w, &out));
  GCONV_TRY(allocate(w, &out));
  char *const *names = w->network.class_count == w->output_floats ? w->network.classes : NULL;
  return gconv_rows_open(output, format, w->output_floats, names, count_windows(w), &w->rows);
}

/* ---- After ----------------------------------------------------------------------------------------------------------- */

/* Prints how many samples at the end are left out, because they do not fill a window. */
static void say_left(const gconv_window_run *w) {
  uint64_t samples = w->samples.read / w->channels, first = (w->found - 1) * w->hop;
  uint64_t seen = first + (w->hop > w->window ? w->hop : w->window);
  if (samples > seen && !w->task->common->quiet)
    gconv_say("%s: the last %llu sample%s %s left out: too few for a window of %zu", w->samples.source.name,
              (unsigned long long)(samples - seen), samples - seen == 1 ? "" : "s", samples - seen == 1 ? "is" : "are",
              w->window);
}

static gconv_status finish(gconv_window_run *w) {
  if (w->found == 0)
    return fail_short(w, w->samples.read / w->channels);
  GCONV_TRY(gconv_rows_commit(&w->rows, w->task->common->no_clobber));
  say_left(w);
  if (w->task->timings != GCONV_TIMINGS_NONE)
    gconv_window_timings_tell(&w->timings, w->samples.source.name, (double)w->samples.read,
                              w->task->timings == GCONV_TIMINGS_JSON, strcmp(w->task->common->output, "-") != 0);
  return GCONV_OK;
}

static void release(gconv_window_run *w) {
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

int gconv_windows_run(const gconv_windows_task *task) {
  gconv_window_run w = {.task = task, .samples.source.file = -1};
  pthread_mutex_init(&w.reading, NULL);
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.changed, NULL);
  gconv_status status = prepare(&w);
  w.timings.begin_ms = gconv_now_ms();
  bool done_nothing = status != GCONV_OK && status != GCONV_EXISTS;
  GCONV_THEN(status, gconv_window_run_workers(&w));
  GCONV_THEN(status, finish(&w));
  if (status != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  release(&w);
  if (status == GCONV_OK)
    return GCONV_EXIT_OK;
  return done_nothing ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}
