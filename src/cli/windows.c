/* SPDX-License-Identifier: MIT */
/*
 * A network over the windows of a signal. Three stages work side by side, on batches of windows that go round in a ring:
 *
 *     reader                          this thread                 writer
 *     samples -> windows  ---------->  network  ---------------->  rows -> CSV, .npy, raw
 *
 * A batch is complete when it is full, or when no more samples are there: a pipe gets a row as soon as its window is
 * complete. What is computed never depends on how windows fall into batches, nor on threads.
 */
#include "cli/windows.h"
#include "base/memory.h"
#include "base/samples.h"
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
  BATCHES = 3,             /* one a stage */
  MOST_WINDOWS = 1024,     /* of a batch */
  FEW_WINDOWS = 8,         /* of a plan for those that came before a batch was full */
  BATCH_FLOATS = 1 << 20,  /* of a batch with all that a network makes of it, where a window has fewer */
  READ_FLOATS = 1 << 16,   /* that are read at a time */
  WAKE_MILLISECONDS = 100, /* so often does the reader look whether it shall end, while no samples come */
};

typedef struct batch {
  gconv_image in, out; /* a frame a window */
  size_t count;        /* windows, of in.frames at most */
} batch;

/* A plan for some windows at a time. */
typedef struct group {
  gconv_plan *plan;
  int32_t windows;
} group;

typedef struct windows {
  const gconv_settings *settings;
  const char *network_path, *input_path;
  gconv_network network;
  gconv_device *device;
  gconv_operation *operation;
  group all, few;
  gconv_samples samples;
  gconv_rows rows;
  size_t window, hop, channels, input_floats, output_floats; /* of a window: samples; to the next; floats in and out */

  /* Of the reader. */
  float *held; /* samples that were read: held[begin .. end) */
  size_t room, begin, end;
  uint64_t skip;  /* numbers to pass over before the next window */
  uint64_t found; /* windows */

  /* Shared by the stages. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  batch batches[BATCHES];
  uint64_t filled, computed, written; /* batches so far; number n is batches[n % BATCHES] */
  bool read_all, computed_all;
  bool stop; /* the later stages have failed: no more batches are wanted */
  gconv_status status;
  gconv_message message; /* of the first failure */
} windows;

/* ---- The stages' queue ----------------------------------------------------------------------------------------------- */

/* Keeps the first failure; its text is the last error of this thread. */
static void keep_failure(windows *w, gconv_status status) {
  pthread_mutex_lock(&w->lock);
  if (w->status == GCONV_OK)
    w->status = gconv_complain(&w->message, status, "%s", gconv_last_error());
  pthread_mutex_unlock(&w->lock);
}

/* Counts a batch that a stage is done with. */
static void pass_on(windows *w, uint64_t *count) {
  pthread_mutex_lock(&w->lock);
  ++*count;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static void set_flag(windows *w, bool *flag) {
  pthread_mutex_lock(&w->lock);
  *flag = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static bool is_stopped(windows *w) {
  pthread_mutex_lock(&w->lock);
  bool stopped = w->stop;
  pthread_mutex_unlock(&w->lock);
  return stopped;
}

/* The next batch for a stage that has passed on `done`, once the stage before has passed on more; NULL if that has ended. */
static batch *wait_for(windows *w, const uint64_t *before, const bool *ended, uint64_t done) {
  pthread_mutex_lock(&w->lock);
  while (*before == done && !*ended)
    pthread_cond_wait(&w->changed, &w->lock);
  batch *found = *before > done ? &w->batches[done % BATCHES] : NULL;
  pthread_mutex_unlock(&w->lock);
  return found;
}

/* An empty batch for the reader; NULL if no more are wanted. */
static batch *wait_for_empty(windows *w, uint64_t done) {
  pthread_mutex_lock(&w->lock);
  while (done - w->written == BATCHES && !w->stop)
    pthread_cond_wait(&w->changed, &w->lock);
  batch *found = w->stop ? NULL : &w->batches[done % BATCHES];
  pthread_mutex_unlock(&w->lock);
  return found;
}

/* ---- Reader ---------------------------------------------------------------------------------------------------------- */

/* Puts the window at `from`, samples x channels, into the batch, channels x samples. */
static void put_window(const windows *w, const float *from, batch *b) {
  float *to = (float *)b->in.data + b->count++ * w->input_floats;
  if (w->channels == 1)
    memcpy(to, from, w->window * sizeof *to);
  for (size_t c = 0; c < w->channels && w->channels > 1; c++)
    for (size_t i = 0; i < w->window; i++)
      *to++ = from[i * w->channels + c];
}

/* Takes the windows that are complete, as many as the batch has room for. */
static void take_windows(windows *w, batch *b) {
  while (b->count < (size_t)b->in.frames) {
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

/* Reads samples behind those that are held. *got = 0 at the end. */
static gconv_status read_more(windows *w, size_t *got) {
  *got = 0;
  if (w->room - w->end < READ_FLOATS) {
    memmove(w->held, w->held + w->begin, (w->end - w->begin) * sizeof *w->held);
    w->end -= w->begin;
    w->begin = 0;
  }
  while (!gconv_source_wait(&w->samples.source, WAKE_MILLISECONDS))
    if (is_stopped(w))
      return GCONV_OK;
  GCONV_TRY(gconv_samples_read(&w->samples, READ_FLOATS, w->held + w->end, got));
  w->end += *got;
  return GCONV_OK;
}

/* Fills a batch, unless the signal ends, or, with a window at least, no more samples are there. */
static gconv_status fill_batch(windows *w, batch *b, bool *ended) {
  b->count = 0;
  take_windows(w, b);
  while (b->count < (size_t)b->in.frames && !*ended) {
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

static void *run_reader(void *argument) {
  windows *w = argument;
  batch *b;
  bool ended = false;
  for (uint64_t done = 0; !ended && (b = wait_for_empty(w, done)); done++) {
    gconv_status status = fill_batch(w, b, &ended);
    if (status != GCONV_OK) /* the windows before it are still computed */
      keep_failure(w, status);
    if (b->count > 0)
      pass_on(w, &w->filled);
  }
  set_flag(w, &w->read_all);
  return NULL;
}

/* ---- Network --------------------------------------------------------------------------------------------------------- */

/* Some windows of a batch, as an image that has no memory of its own. */
static gconv_image part_of(const gconv_image *image, size_t first, int32_t count) {
  gconv_image part = *image;
  part.data = (float *)image->data + first * (size_t)image->channels * (image->plane_bytes / sizeof(float));
  part.frames = count;
  return part;
}

/* If more than half of a batch is filled, the plan for a whole batch computes it in one call. It then also computes the
 * windows that an earlier batch left there; nobody reads these results. If less is filled, the plan for a few windows is
 * called as often as it takes. */
static gconv_status compute_batch(windows *w, batch *b) {
  for (size_t first = 0; first < b->count;) {
    const group *g = b->count - first > (size_t)w->all.windows / 2 && first == 0 ? &w->all : &w->few;
    gconv_image in = part_of(&b->in, first, g->windows), out = part_of(&b->out, first, g->windows);
    GCONV_TRY(gconv_plan_execute(g->plan, &in, &out, NULL));
    first += (size_t)g->windows;
  }
  return GCONV_OK;
}

static void compute(windows *w) {
  batch *b;
  gconv_status status = GCONV_OK;
  for (uint64_t done = 0; status == GCONV_OK && (b = wait_for(w, &w->filled, &w->read_all, done)); done++) {
    status = compute_batch(w, b);
    if (status == GCONV_OK)
      pass_on(w, &w->computed);
  }
  if (status != GCONV_OK) {
    keep_failure(w, status);
    set_flag(w, &w->stop);
  }
  set_flag(w, &w->computed_all);
}

/* ---- Writer ---------------------------------------------------------------------------------------------------------- */

/* After a failure, batches are passed over until no more come. */
static void *run_writer(void *argument) {
  windows *w = argument;
  batch *b;
  gconv_status status = GCONV_OK;
  for (uint64_t done = 0; (b = wait_for(w, &w->computed, &w->computed_all, done)); done++) {
    if (status == GCONV_OK) {
      status = gconv_rows_write(&w->rows, b->out.data, b->count);
      if (status != GCONV_OK) {
        keep_failure(w, status);
        set_flag(w, &w->stop);
      }
    }
    pass_on(w, &w->written);
  }
  return NULL;
}

static gconv_status run_stages(windows *w) {
  pthread_t reader, writer;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  int error = pthread_create(&writer, NULL, run_writer, w);
  bool wrote = error == 0, reads = false;
  if (wrote) {
    error = pthread_create(&reader, NULL, run_reader, w);
    reads = error == 0;
  }
  if (error != 0)
    w->status = gconv_complain(&w->message, GCONV_NO_MEMORY, "cannot start a thread: %s", strerror(error));
  if (reads)
    compute(w);
  else
    set_flag(w, &w->computed_all);
  if (reads)
    pthread_join(reader, NULL);
  if (wrote)
    pthread_join(writer, NULL);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  return w->status;
}

/* ---- Before ---------------------------------------------------------------------------------------------------------- */

static gconv_status complain_library(gconv_status status, gconv_message *message) {
  return status == GCONV_OK ? status : gconv_complain(message, status, "%s", gconv_last_error());
}

static gconv_status check_words(windows *w, gconv_message *message) {
  const gconv_settings *settings = w->settings;
  if (settings->inputs.count != 1)
    return gconv_refuse(message, "--windows takes one signal: %s and %s are several", settings->inputs.items[0],
                        settings->inputs.items[1]);
  if (settings->last.filters.count != 1)
    return gconv_refuse(message, "--windows takes one network: %s and %s are several", settings->last.filters.items[0],
                        settings->last.filters.items[1]);
  if (gconv_settings_want_race(settings))
    return gconv_refuse(message, "--algorithm all is a race on one image: --windows takes auto, or one algorithm");
  if (gconv_devices_are_several(settings->job.device))
    return gconv_refuse(message, "--device %s: --windows uses one device", settings->job.device);
  w->input_path = settings->inputs.items[0];
  w->network_path = settings->last.filters.items[0];
  if (settings->no_clobber && strcmp(settings->naming.output, "-") != 0 && gconv_output_exists(settings->naming.output))
    return gconv_complain(message, GCONV_EXISTS, "%s: exists, and --no-clobber keeps it", settings->naming.output);
  return GCONV_OK;
}

static gconv_status read_network(windows *w, gconv_message *message) {
  gconv_status status = complain_library(gconv_network_read(w->network_path, &w->network), message);
  if (status != GCONV_OK && status != GCONV_NO_MEMORY && !gconv_network_is_one(w->network_path))
    return gconv_refuse(message,
                        "-f %s: is no file of a network, which --windows runs: `gconv train --signal` trains one, and "
                        "`gconv bank convert` makes one of a model of PyTorch or ONNX",
                        w->network_path);
  GCONV_TRY(status);
  if (w->network.height <= 1)
    return GCONV_OK;
  return gconv_refuse(message, "%s: takes images of %d x %d pixels, and no windows of a signal", w->network_path,
                      (int)w->network.width, (int)w->network.height);
}

/* Finds how the network sees a window: as samples side by side, or, as it does rows of a table, each as a channel. */
static gconv_status find_shape(const windows *w, gconv_image *in, gconv_message *message) {
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
  *in = (gconv_image){.type = GCONV_F32, .planar = true, .frames = 1, .height = 1};
  in->width = samples ? (int32_t)w->window : 1;
  in->channels = (int32_t)(w->input_floats / (size_t)in->width);
  return GCONV_OK;
}

/* How many windows a batch has, so that it stays in caches, and all in bounded memory. */
static int32_t size_of_batch(const gconv_plan *plan, size_t input_floats, size_t output_floats) {
  const gconv_layer_info *layer;
  size_t most = 0;
  for (size_t i = 0; (layer = gconv_plan_layer_info(plan, i)); i++) {
    size_t floats = (size_t)layer->filters * (size_t)layer->out_height * (size_t)layer->out_width * (size_t)layer->images;
    most = floats > most ? floats : most;
  }
  size_t count = BATCH_FLOATS / (input_floats + output_floats + 2 * most);
  return count < 1 ? 1 : count > MOST_WINDOWS ? MOST_WINDOWS : (int32_t)count;
}

static gconv_status make_group(const windows *w, gconv_image *like, int32_t count, group *g) {
  g->windows = like->frames = count;
  return gconv_plan_create(w->device, like, w->operation, 0, &g->plan);
}

static gconv_status make_plans(windows *w, gconv_image like, gconv_image *out) {
  const gconv_network_options *given = &w->settings->network;
  gconv_network_options options = {.any_batch = true, .math = given->math, .without = w->settings->options.without};
  group one = {0};
  options.algorithm = w->settings->last.layer.algorithm;
  options.workspace_bytes = w->settings->workspace < SIZE_MAX / 2 ? (size_t)w->settings->workspace : SIZE_MAX / 2;
  GCONV_TRY(gconv_operation_of_network(&w->network, &options, &w->operation));
  GCONV_TRY(make_group(w, &like, 1, &one));
  *out = *gconv_plan_output_header(one.plan, 0);
  w->output_floats = (size_t)out->channels * (size_t)out->height * (size_t)out->width;
  int32_t count = size_of_batch(one.plan, w->input_floats, w->output_floats);
  gconv_plan_free(one.plan);
  GCONV_TRY(make_group(w, &like, count, &w->all));
  return make_group(w, &like, count < FEW_WINDOWS ? count : FEW_WINDOWS, &w->few);
}

/* Batches have whole groups of few windows. */
static gconv_status allocate(windows *w, const gconv_image *in, const gconv_image *out) {
  int32_t few = w->few.windows, frames = (w->all.windows + few - 1) / few * few;
  for (int i = 0; i < BATCHES; i++) {
    batch *b = &w->batches[i];
    b->in = *in;
    b->out = *out;
    b->in.frames = b->out.frames = frames;
    GCONV_TRY(gconv_image_allocate(&b->in));
    GCONV_TRY(gconv_image_allocate(&b->out));
    memset(b->in.data, 0, (size_t)frames * w->input_floats * sizeof(float));
    b->in.frames = w->all.windows;
  }
  void *held = NULL;
  w->room = 2 * w->input_floats + 2 * READ_FLOATS;
  GCONV_TRY(gconv_allocate(w->room * sizeof *w->held, "samples", &held));
  w->held = held;
  return GCONV_OK;
}

static gconv_status open_device(windows *w) {
  const char *name = w->settings->job.device;
  return gconv_device_open(strcmp(name, "auto") == 0 ? "cpu" : name, w->settings->job.threads, &w->device);
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
  GCONV_TRY(gconv_samples_open(w->input_path, w->settings->learn.raw, &w->samples));
  w->window = (size_t)w->settings->learn.data.window;
  w->hop = w->settings->learn.data.hop > 0 ? (size_t)w->settings->learn.data.hop : w->window;
  w->channels = (size_t)w->samples.channels;
  w->input_floats = w->window * w->channels;
  return count_windows(w) == 0 ? fail_short(w, w->samples.count) : GCONV_OK;
}

static gconv_status prepare(windows *w, gconv_settings *settings, gconv_message *message) {
  gconv_rows_format format;
  gconv_image in, out;
  GCONV_TRY(gconv_settings_finish(settings, message));
  GCONV_TRY(check_words(w, message));
  GCONV_TRY(gconv_rows_choose(settings, &format, message));
  const char *output = settings->naming.output;
  char *paths[] = {settings->inputs.items[0], settings->last.filters.items[0]};
  gconv_sandbox_files(settings, &output, 1, true);
  if (strcmp(output, "-") != 0)
    GCONV_TRY(gconv_data_check_output("-o", output, &(gconv_texts){paths, 2}, message));
  GCONV_TRY(read_network(w, message));
  GCONV_TRY(complain_library(open_signal(w), message));
  GCONV_TRY(find_shape(w, &in, message));
  GCONV_TRY(complain_library(open_device(w), message));
  GCONV_TRY(complain_library(make_plans(w, in, &out), message));
  GCONV_TRY(complain_library(allocate(w, &in, &out), message));
  char *const *names = w->network.class_count == w->output_floats ? w->network.classes : NULL;
  return complain_library(gconv_rows_open(output, format, w->output_floats, names, count_windows(w), &w->rows), message);
}

/* ---- After ----------------------------------------------------------------------------------------------------------- */

/* Tells of samples at the end that are in no window, because the last one would not be whole. */
static void say_left(const windows *w) {
  uint64_t samples = w->samples.read / w->channels, first = (w->found - 1) * w->hop;
  uint64_t seen = first + (w->hop > w->window ? w->hop : w->window);
  if (samples > seen && !w->settings->quiet)
    gconv_say("%s: the last %llu sample%s %s no whole window of %zu, and left out", w->samples.source.name,
              (unsigned long long)(samples - seen), samples - seen == 1 ? "" : "s", samples - seen == 1 ? "is" : "are",
              w->window);
}

static gconv_status finish(windows *w) {
  if (w->found == 0)
    return fail_short(w, w->samples.read / w->channels);
  GCONV_TRY(gconv_rows_commit(&w->rows, w->settings->no_clobber));
  say_left(w);
  return GCONV_OK;
}

static void release(windows *w) {
  gconv_rows_discard(&w->rows);
  for (int i = 0; i < BATCHES; i++) {
    gconv_image_free(&w->batches[i].in);
    gconv_image_free(&w->batches[i].out);
  }
  gconv_release(w->held);
  gconv_plan_free(w->all.plan);
  gconv_plan_free(w->few.plan);
  gconv_operation_free(w->operation);
  gconv_network_free(&w->network);
  gconv_samples_close(&w->samples);
  gconv_device_close(w->device);
}

int gconv_windows_run(gconv_settings *settings) {
  windows w = {.settings = settings, .samples.source.file = -1};
  gconv_set_log(settings->quiet ? NULL : gconv_say_warning, NULL);
  gconv_status status = prepare(&w, settings, &w.message);
  bool done_nothing = status != GCONV_OK && status != GCONV_EXISTS;
  if (status == GCONV_OK)
    status = run_stages(&w);
  if (status == GCONV_OK)
    status = complain_library(finish(&w), &w.message);
  release(&w);
  if (status == GCONV_OK)
    return GCONV_EXIT_OK;
  gconv_say("%s", w.message.text);
  return done_nothing ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}
