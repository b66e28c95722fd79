/* SPDX-License-Identifier: MIT */
/*
 * The experiment windows: a stream of samples is cut into windows of S samples, without overlap, and each goes through a net
 * S-S-S-1 of sigmoids, as in `gconv -i signal.npy -f NETWORK --windows S`. Times are from samples in the memory of the host
 * to outputs there: on a GPU, with the copies.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "bench/bench.h"
#include "gconv_learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  SAMPLES = 1 << 22, /* samples of the stream */
  TOGETHER = 1024,   /* windows that the CPU computes together, as with --windows: they stay in its caches */
};

static const double ALLOWED = 1e-4; /* difference from the output of one core; outputs are from 0 to 1 */

typedef struct stream {
  gconv_network network;
  int32_t window, windows;             /* samples of a window; number of windows, a multiple of TOGETHER */
  gconv_image samples, outputs, first; /* a frame a window; `first`: the outputs of one core */
} stream;

/* ---- The stream and its net ---- */

static void free_stream(stream *s) {
  gconv_network_free(&s->network);
  gconv_image_free(&s->samples);
  gconv_image_free(&s->outputs);
  gconv_image_free(&s->first);
}

static gconv_status fill_stream(int32_t window, stream *s) {
  char text[80];
  const gconv_bench_image all = {SAMPLES, 1, 1, true};
  s->window = window;
  s->windows = SAMPLES / window / TOGETHER * TOGETHER;
  if (s->windows == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "--sizes %d: windows have 1 to %d samples", (int)window, SAMPLES / TOGETHER);
  snprintf(text, sizeof text, "dense %d sigmoid, dense %d sigmoid, dense 1 sigmoid", (int)window, (int)window);
  GCONV_TRY(gconv_network_make(text, 1, 1, window, 1, 1, &s->network));
  GCONV_TRY(gconv_bench_make_image(&all, GCONV_F32, &s->samples));
  s->samples.width = window;
  s->samples.frames = s->windows;
  s->samples.row_bytes = s->samples.plane_bytes = (size_t)window * sizeof(float);
  s->outputs =
      (gconv_image){.type = GCONV_F32, .planar = true, .frames = s->windows, .height = 1, .width = 1, .channels = 1};
  s->first = s->outputs;
  GCONV_TRY(gconv_image_allocate(&s->outputs));
  return gconv_image_allocate(&s->first);
}

/* ---- One method ---- */

/* Returns some windows of an image that has all windows. */
static gconv_image part_of(const gconv_image *image, int32_t first, int32_t count) {
  gconv_image part = *image;
  part.data = (char *)image->data + (size_t)first * image->plane_bytes;
  part.frames = count;
  return part;
}

/* A stream through a plan, `together` windows at a time. */
typedef struct method_work {
  gconv_plan *plan;
  const stream *s;
  int32_t together;
} method_work;

static gconv_status run_stream(const void *user, double *milliseconds) {
  const method_work *w = user;
  double start = gconv_now_ms();
  for (int32_t i = 0; i < w->s->windows; i += w->together) {
    gconv_image in = part_of(&w->s->samples, i, w->together), out = part_of(&w->s->outputs, i, w->together);
    GCONV_TRY(gconv_plan_execute(w->plan, &in, &out, 1, NULL));
  }
  *milliseconds = gconv_now_ms() - start;
  return GCONV_OK;
}

static gconv_status time_runs(const method_work *w, int runs, gconv_bench_row *row) {
  double ms = 0;
  for (int i = 0; i < 2; i++) /* one run to warm up, one to see how long it takes */
    GCONV_TRY(run_stream(w, &ms));
  return gconv_bench_time_runs(row, gconv_bench_affordable_runs(ms, runs), run_stream, w);
}

/* Compares outputs with the outputs of one core, which is measured first. */
static gconv_status check_outputs(stream *s, bool first, gconv_bench_row *row) {
  const float *outputs = s->outputs.data, *expected = s->first.data;
  if (first)
    memcpy(s->first.data, outputs, (size_t)s->windows * sizeof *outputs);
  row->checked = !first;
  row->allowed = ALLOWED;
  for (int32_t i = 0; i < s->windows; i++)
    gconv_bench_note_error(row, fabs((double)outputs[i] - (double)expected[i]));
  if (row->error <= row->allowed)
    return GCONV_OK;
  return gconv_fail(GCONV_MISMATCH, "its outputs differ from one core's by %.2g, where %.2g is allowed", row->error,
                    row->allowed);
}

static gconv_status measure(const gconv_bench *bench, stream *s, gconv_device *device, bool first, gconv_bench_row *row) {
  const gconv_network_options options = {.any_batch = true};
  const bool on_gpu = device == bench->device && strcmp(bench->type_name, "cuda") == 0;
  method_work w = {.s = s, .together = on_gpu ? s->windows : TOGETHER};
  gconv_image like = part_of(&s->samples, 0, w.together);
  gconv_operation *operation = NULL;
  gconv_status status = gconv_operation_of_network(&s->network, &options, &operation);
  GCONV_THEN(status, gconv_plan_create(device, &like, operation, 0, &w.plan));
  GCONV_THEN(status, time_runs(&w, bench->grid->runs, row));
  GCONV_THEN(status, check_outputs(s, first, row));
  gconv_plan_free(w.plan);
  gconv_operation_free(operation);
  return status;
}

/* ---- All methods ---- */

gconv_status gconv_bench_windows(gconv_bench *bench, int32_t window) {
  const struct {
    const char *name;
    gconv_device *device; /* NULL: there is none */
    int threads;          /* 0: the number of the bench */
  } methods[] = {{"one-core", bench->one, 1},
                 {"all-cores", bench->all, 0},
                 {"cuda", strcmp(bench->type_name, "cuda") == 0 ? bench->device : NULL, 0}};
  stream s = {.window = 0};
  gconv_status status = fill_stream(window, &s);
  for (size_t i = 0; status == GCONV_OK && i < sizeof methods / sizeof *methods; i++) {
    gconv_bench_row row = {.algorithm = methods[i].name, .place = window, .items = s.windows, .threads = methods[i].threads};
    snprintf(row.filter, sizeof row.filter, "%d-%d-%d-1", (int)window, (int)window, (int)window);
    snprintf(row.group, sizeof row.group, "%d samples, window after window; sigmoids; ms of the stream", (int)SAMPLES);
    if (methods[i].device)
      gconv_bench_end_row(bench, &row, measure(bench, &s, methods[i].device, i == 0, &row));
  }
  free_stream(&s);
  return status;
}
