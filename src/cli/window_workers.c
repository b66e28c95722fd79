/* SPDX-License-Identifier: MIT */
/*
 * A network over the windows of a signal. Workers, each with a thread, take batches of windows from the samples to the rows:
 *
 *     read samples, in turn  ->  windows  ->  network  ->  rows, in the order of the batches  ->  CSV, .npy, raw
 *
 * On the CPU, each worker computes its own batch with one thread. So a batch stays in the caches of a core, and workers wait
 * for each other only to read and to write. On a GPU, or if windows or weights are large, one batch at a time is computed,
 * with all threads. Three workers then read, compute and write at the same time.
 *
 * A batch is complete when it is full, or when no more samples are there yet: a pipe gets a row as soon as its window is
 * complete. Results never depend on batches or threads.
 */
#include "cli/window_workers.h"
#include "base/clock.h"

#include <string.h>

enum { WAKE_MILLISECONDS = 100 /* how often a reader checks whether to end, while no samples come */ };

/* Keeps the first failure; its text is the last error of this thread. */
static void keep_failure(gconv_window_run *w, gconv_status status) {
  pthread_mutex_lock(&w->lock);
  if (w->status == GCONV_OK)
    w->status = gconv_complain(&w->message, status, "%s", gconv_last_error());
  pthread_mutex_unlock(&w->lock);
}

static bool is_stopped(gconv_window_run *w) {
  pthread_mutex_lock(&w->lock);
  bool stopped = w->stop;
  pthread_mutex_unlock(&w->lock);
  return stopped;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------------- */

/* Copies the window at `from` into the batch, transposed from samples x channels to channels x samples. */
static void put_window(const gconv_window_run *w, const float *from, gconv_window_worker *b) {
  float *to = (float *)b->in.data + b->count++ * w->input_floats;
  if (w->channels == 1)
    memcpy(to, from, w->window * sizeof *to);
  for (size_t c = 0; c < w->channels && w->channels > 1; c++)
    for (size_t i = 0; i < w->window; i++)
      *to++ = from[i * w->channels + c];
}

/* Takes windows that are complete, until the batch is full. */
static void take_windows(gconv_window_run *w, gconv_window_worker *b) {
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
static gconv_status read_samples(gconv_window_run *w, size_t most, float *to, size_t *got) {
  *got = 0;
  while (!gconv_source_wait(&w->samples.source, WAKE_MILLISECONDS))
    if (is_stopped(w))
      return GCONV_OK;
  return gconv_samples_read(&w->samples, most, to, got);
}

/* Reads samples after those that are held. *got = 0 at the end. */
static gconv_status read_more(gconv_window_run *w, size_t *got) {
  if (w->room - w->end < GCONV_READ_FLOATS) {
    memmove(w->held, w->held + w->begin, (w->end - w->begin) * sizeof *w->held);
    w->end -= w->begin;
    w->begin = 0;
  }
  GCONV_TRY(read_samples(w, GCONV_READ_FLOATS, w->held + w->end, got));
  w->end += *got;
  return GCONV_OK;
}

/* Fills a batch, but stops at the end of the signal, or if there is a window and no more samples have come. */
static gconv_status fill_batch(gconv_window_run *w, gconv_window_worker *b, bool *ended) {
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

/* Does the same for one channel whose windows follow each other without gaps: reads samples directly into the batch. Samples
 * of an incomplete window are held for the next batch. */
static gconv_status fill_batch_in_place(gconv_window_run *w, gconv_window_worker *b, bool *ended) {
  const size_t all = (size_t)w->batch * w->input_floats;
  float *to = b->in.data;
  size_t have = w->end;
  gconv_status status = GCONV_OK;
  memcpy(to, w->held, have * sizeof *to);
  while (have < all && !*ended && (have < w->input_floats || gconv_source_wait(&w->samples.source, 0))) {
    size_t got, most = all - have < GCONV_READ_FLOATS ? all - have : GCONV_READ_FLOATS;
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

/* Fills the next batch; false if no more are wanted, or the signal has ended. Windows before a failure still count. */
static bool read_batch(gconv_window_run *w, gconv_window_worker *b) {
  const bool in_place = w->channels == 1 && w->hop == w->window;
  pthread_mutex_lock(&w->reading);
  b->count = 0;
  if (!w->read_all && !is_stopped(w)) {
    gconv_status status = in_place ? fill_batch_in_place(w, b, &w->read_all) : fill_batch(w, b, &w->read_all);
    if (status != GCONV_OK)
      keep_failure(w, status);
    b->read_ms = gconv_now_ms();
    b->number = w->batches;
    w->batches += b->count > 0;
  }
  pthread_mutex_unlock(&w->reading);
  return b->count > 0;
}

/* ---- Computing ------------------------------------------------------------------------------------------------------- */

gconv_status gconv_window_make_group(const gconv_window_run *w, int32_t count, gconv_window_group *g) {
  gconv_image like = w->like;
  g->windows = like.frames = count;
  return gconv_plan_create(w->device, &like, w->operation, 0, &g->plan);
}

/* Returns some windows of a batch, as an image that shares the memory of the batch. */
static gconv_image part_of(const gconv_image *image, size_t first, int32_t count) {
  gconv_image part = *image;
  part.data = (float *)image->data + first * (size_t)image->channels * (image->plane_bytes / sizeof(float));
  part.frames = count;
  return part;
}

/* If more than half of a batch is filled, the plan for a whole batch computes it in one call, with zeros after the windows,
 * whose results are not used. If less is filled, the plan for a few windows is called repeatedly. Making this plan takes
 * longer than computing some zeros, as at the end of a signal. */
static gconv_status compute_with(const gconv_window_run *w, gconv_window_engine *e, const gconv_window_worker *b) {
  const size_t least = (size_t)e->all.windows / (e->few.plan ? 2 : 4);
  gconv_window_group *g = b->count > least ? &e->all : &e->few;
  size_t each = (size_t)g->windows, rest = (each - b->count % each) % each; /* windows of a call; zeros in the last call */
  if (!g->plan)
    GCONV_TRY(gconv_window_make_group(w, g->windows, g));
  memset((float *)b->in.data + b->count * w->input_floats, 0, rest * w->input_floats * sizeof(float));
  for (size_t first = 0; first < b->count; first += each) {
    gconv_image in = part_of(&b->in, first, g->windows), out = part_of(&b->out, first, g->windows);
    GCONV_TRY(gconv_plan_execute(g->plan, &in, &out, 1, NULL));
  }
  return GCONV_OK;
}

static gconv_status compute_batch(const gconv_window_run *w, const gconv_window_worker *b) {
  pthread_mutex_lock(&b->engine->lock);
  gconv_status status = compute_with(w, b->engine, b);
  pthread_mutex_unlock(&b->engine->lock);
  return status;
}

/* ---- Writing --------------------------------------------------------------------------------------------------------- */

static void wait_for_turn(gconv_window_run *w, uint64_t number) {
  pthread_mutex_lock(&w->lock);
  while (w->written != number)
    pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
}

static void end_turn(gconv_window_run *w, bool stop) {
  pthread_mutex_lock(&w->lock);
  w->stop = w->stop || stop;
  w->written++;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

/* Writes the rows of a batch after those of all earlier ones, unless one of these failed. `status`: that of computing it. */
static void write_batch(gconv_window_run *w, const gconv_window_worker *b, gconv_status status) {
  wait_for_turn(w, b->number);
  bool stopped = is_stopped(w);
  if (!stopped && status == GCONV_OK)
    status = gconv_rows_write(&w->rows, b->out.data, b->count);
  if (!stopped && status == GCONV_OK) /* without a lock: only the worker whose turn it is comes here */
    gconv_window_timings_note(&w->timings, gconv_now_ms() - b->read_ms, b->count);
  if (!stopped && status != GCONV_OK)
    keep_failure(w, status);
  end_turn(w, status != GCONV_OK);
}

/* ---- Workers --------------------------------------------------------------------------------------------------------- */

static void *work(void *argument) {
  gconv_window_worker *b = argument;
  while (read_batch(b->windows, b))
    write_batch(b->windows, b, compute_batch(b->windows, b));
  return NULL;
}

gconv_status gconv_window_run_workers(gconv_window_run *w) {
  int started = 1;
  while (started < w->worker_count && pthread_create(&w->workers[started].thread, NULL, work, &w->workers[started]) == 0)
    started++;
  work(&w->workers[0]);
  for (int i = 1; i < started; i++)
    pthread_join(w->workers[i].thread, NULL);
  return w->status == GCONV_OK ? GCONV_OK : gconv_set_error(w->status, w->message.text);
}
