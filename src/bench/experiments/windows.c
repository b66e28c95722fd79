/* SPDX-License-Identifier: MIT */
/*
 * The experiments windows: a stream of samples is cut into windows of S samples, without overlap, and each goes through a
 * net S-S-S-S of sigmoids, which has as many outputs as inputs, as in the article (docs/theses.md). Times are from samples
 * to outputs in the memory of the host: on a GPU, they include the copies. Methods are gconv's plans, like those of `gconv
 * -i signal.npy -f NETWORK --windows S`, and the article's own kernels (kernels/cuda/experiments/windows.h).
 *
 * The latency of a window is the time of the call or launch that it is in.
 */
#include "kernels/cuda/experiments/windows.h"
#include "base/clock.h"
#include "base/memory.h"
#include "bench/bench.h"
#include "device/device.h"
#include "gconv_learn.h"

#include <math.h>
#include <string.h>

enum {
  SAMPLES = 1 << 22,   /* samples of the stream */
  TOGETHER = 1024,     /* windows that the CPU computes together, as with --windows: they stay in its caches */
  MOST_LAUNCHES = 500, /* of the article's kernels: a stream that needs more is cut short */
  USUAL_THREADS = 128, /* the article's best */
  OF_FIGURE_1B = 196,  /* windows of a launch in the article's figure 1b */
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
  snprintf(text, sizeof text, "dense %d sigmoid, dense %d sigmoid, dense %d sigmoid", (int)window, (int)window, (int)window);
  GCONV_TRY(gconv_network_make(text, (const int32_t[]){1, 1, window}, (size_t)window, 1, &s->network));
  GCONV_TRY(gconv_bench_make_image(&all, GCONV_F32, &s->samples));
  s->samples.width = window;
  s->samples.frames = s->windows;
  s->samples.row_bytes = s->samples.plane_bytes = (size_t)window * sizeof(float);
  s->outputs =
      (gconv_image){.type = GCONV_F32, .planar = true, .frames = s->windows, .height = 1, .width = 1, .channels = window};
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

/* A stream that goes through a plan or the article's kernels, `together` windows at a time. */
typedef struct method_work {
  gconv_plan *plan;
  gconv_window_net *kernels; /* NULL: the plan */
  stream *s;
  int32_t together, windows; /* windows: how many are taken, a multiple of `together` */
  double *latencies;         /* of each call, in the last run; owned */
} method_work;

static gconv_status run_part(const method_work *w, int32_t first) {
  gconv_image in = part_of(&w->s->samples, first, w->together), out = w->s->outputs;
  out.data = (float *)out.data + (size_t)first * (size_t)w->s->window;
  out.frames = w->together;
#ifdef GCONV_WITH_CUDA
  if (w->kernels)
    return gconv_window_net_take(w->kernels, in.data, out.data, w->together);
#endif
  return gconv_plan_execute(w->plan, &in, &out, 1, NULL);
}

static gconv_status run_stream(const void *user, double *milliseconds) {
  const method_work *w = user;
  const double start = gconv_now_ms();
  double before = start;
  for (int32_t i = 0; i < w->windows / w->together; i++) {
    GCONV_TRY(run_part(w, i * w->together));
    const double now = gconv_now_ms();
    w->latencies[i] = now - before;
    before = now;
  }
  *milliseconds = before - start;
  return GCONV_OK;
}

static gconv_status time_runs(const method_work *w, int runs, gconv_bench_row *row) {
  const int32_t calls = w->windows / w->together;
  double ms = 0;
  for (int i = 0; i < 2; i++) /* one run to warm up, one to see how long it takes */
    GCONV_TRY(run_stream(w, &ms));
  GCONV_TRY(gconv_bench_time_runs(row, gconv_bench_affordable_runs(ms, runs), run_stream, w));
  row->p50_ms = gconv_bench_median(w->latencies, calls); /* this sorts them */
  row->p99_ms = w->latencies[(int32_t)(0.99 * (calls - 1))];
  row->items = (double)w->windows * w->s->window;
  return GCONV_OK;
}

/* Compares outputs with the outputs of one core, which is measured first. */
static gconv_status check_outputs(const method_work *w, bool first, gconv_bench_row *row) {
  const float *outputs = w->s->outputs.data, *expected = w->s->first.data;
  const size_t count = (size_t)w->windows * (size_t)w->s->window;
  if (first)
    memcpy(w->s->first.data, outputs, count * sizeof *outputs);
  row->checked = !first;
  row->allowed = ALLOWED;
  for (size_t i = 0; i < count; i++)
    gconv_bench_note_error(row, fabs((double)outputs[i] - (double)expected[i]));
  if (row->error <= row->allowed)
    return GCONV_OK;
  return gconv_fail(GCONV_MISMATCH, "its outputs differ from one core's by %.2g, where %.2g is allowed", row->error,
                    row->allowed);
}

static gconv_status run_again(void *user) {
  double ms;
  return run_stream(user, &ms);
}

static gconv_status measure_work(gconv_bench *bench, method_work *w, bool first, gconv_bench_row *row) {
  gconv_status status = gconv_allocate((size_t)(w->windows / w->together) * sizeof *w->latencies, "the times of windows",
                                       (void **)&w->latencies);
  memset(w->s->outputs.data, 0, (size_t)w->s->windows * (size_t)w->s->window * sizeof(float));
  GCONV_THEN(status, time_runs(w, bench->grid->runs, row));
  GCONV_THEN(status, check_outputs(w, first, row));
  if (status == GCONV_OK && strstr(row->algorithm, "core") == NULL)
    gconv_bench_profile_work(bench, run_again, w, row);
  gconv_release(w->latencies);
  return status;
}

/* ---- gconv's plans ---- */

static gconv_status measure_plan(gconv_bench *bench, stream *s, gconv_device *device, int32_t together,
                                 gconv_bench_row *row) {
  const gconv_network_options options = {.any_batch = true};
  method_work w = {.s = s, .together = together, .windows = s->windows / together * together};
  gconv_image like = part_of(&s->samples, 0, w.together);
  gconv_operation *operation = NULL;
  gconv_status status = gconv_operation_of_network(&s->network, &options, &operation);
  GCONV_THEN(status, gconv_plan_create(device, &like, operation, 0, &w.plan));
  GCONV_THEN(status, measure_work(bench, &w, strcmp(row->algorithm, "one-core") == 0, row));
  gconv_plan_free(w.plan);
  gconv_operation_free(operation);
  return status;
}

/* ---- Figures ---- */

typedef struct figure {
  const char *name, *group;
  bool launches;    /* windows of a launch go along x; else their length */
  bool threads;     /* each number of threads has a line; else only USUAL_THREADS */
  bool textures;    /* with and without */
  bool cores, plan; /* gconv on all cores; on the GPU, the whole stream in a batch */
  bool speed_up;    /* y is the speed-up */
} figure;

static const figure figures[] = {
    {"windows", "window after window; sigmoids", false, false, false, true, true, false},
    {"windows-1a", "windows of a launch", true, true, false, false, false, false},
    {"windows-1b", "196 windows a launch", false, true, false, false, false, false},
    {"windows-2a", "times as fast as all cores", false, false, false, true, false, true},
    {"windows-2b", "weights with and without the texture units", false, false, true, false, false, false},
};

static gconv_bench_row begin_row(const figure *f, const stream *s, const char *method, int32_t together, int32_t threads) {
  gconv_bench_row row = {.algorithm = method, .place = f->launches ? together : s->window, .rate = 1e3, .threads = threads};
  row.draws_speed_up = f->speed_up;
  const int width = (int)s->window;
  const size_t used = (size_t)snprintf(row.filter, sizeof row.filter, "%d-%d-%d-%d", width, width, width, width);
  if (f->launches)
    snprintf(row.filter + used, sizeof row.filter - used, " %d a time", (int)together);
  if (f->launches)
    snprintf(row.group, sizeof row.group, "%s: windows of %d samples", f->group, (int)s->window);
  else
    snprintf(row.group, sizeof row.group, "%s: a stream of %d samples", f->group, (int)SAMPLES);
  return row;
}

static void measure_cores(gconv_bench *bench, const figure *f, stream *s, gconv_device *device, int32_t together) {
  const bool one = device == bench->one;
  const char *name = one ? "one-core" : device == bench->all ? "all-cores" : "gconv";
  gconv_bench_row row = begin_row(f, s, name, together, one ? 1 : 0);
  const gconv_status status = measure_plan(bench, s, device, together, &row);
  gconv_bench_end_row(bench, &row, status);
}

#ifdef GCONV_WITH_CUDA
static gconv_status measure_kernels(gconv_bench *bench, stream *s, gconv_window_net_order order, gconv_bench_row *row) {
  method_work w = {.s = s, .together = order.together > 0 ? order.together : 1};
  const int32_t launches = s->windows / w.together;
  w.windows = (launches < MOST_LAUNCHES ? launches : MOST_LAUNCHES) * w.together;
  for (int l = 0; l < GCONV_WINDOW_NET_LAYERS; l++) {
    order.weights[l] = s->network.banks[l].weights;
    order.biases[l] = s->network.banks[l].biases;
  }
  gconv_device_enter(bench->device);
  gconv_status status = gconv_window_net_create(&order, &w.kernels);
  GCONV_THEN(status, measure_work(bench, &w, false, row));
  gconv_window_net_free(w.kernels);
  gconv_device_leave(bench->device);
  return status;
}

/* together: windows of a launch; 0: one, by window-a-launch. */
static void measure_launch(gconv_bench *bench, const figure *f, stream *s, int32_t together, int32_t threads, bool texture) {
  const char *name = together == 0 ? "window-a-launch" : texture ? "block-a-window" : "block-no-texture";
  if (together > s->windows)
    return;
  gconv_bench_row row = begin_row(f, s, name, together > 0 ? together : 1, 0);
  snprintf(row.line, sizeof row.line, "%s, %d threads", name, (int)threads);
  row.block = (gconv_bench_block){threads, 1};
  const gconv_window_net_order order = {.window = s->window, .threads = threads, .together = together, .texture = texture};
  const gconv_status status = measure_kernels(bench, s, order, &row);
  gconv_bench_end_row(bench, &row, status);
}

static void measure_gpu(gconv_bench *bench, const figure *f, stream *s) {
  static const int32_t threads[] = {64, 128, 256};
  static const double blocks[] = {0, 0.25, 0.5, 1, 2, 4, 8, 16, 32}; /* of a multiprocessor; 0: window-a-launch */
  const int32_t multiprocessors = gconv_window_net_multiprocessors();
  if (f->plan)
    measure_cores(bench, f, s, bench->device, s->windows);
  for (int t = 0; t < 3; t++) {
    if (!f->threads && threads[t] != USUAL_THREADS)
      continue;
    for (size_t i = 0; f->launches && i < sizeof blocks / sizeof *blocks; i++)
      measure_launch(bench, f, s, (int32_t)(blocks[i] * multiprocessors), threads[t], true);
    if (f->launches)
      continue;
    if (f->plan)
      measure_launch(bench, f, s, 0, threads[t], true);
    measure_launch(bench, f, s, f->threads ? OF_FIGURE_1B : 8 * multiprocessors, threads[t], true);
    if (f->textures)
      measure_launch(bench, f, s, 8 * multiprocessors, threads[t], false);
  }
}
#endif

/* Measures calls of several windows on the CPU, in place of the article's launches of several windows. */
static void measure_calls(gconv_bench *bench, const figure *f, stream *s) {
  static const int32_t calls[] = {1, 4, 16, 64, 256};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    measure_cores(bench, f, s, bench->all ? bench->all : bench->one, calls[i]);
}

gconv_status gconv_bench_windows(gconv_bench *bench, int32_t window) {
  const bool on_gpu = strcmp(bench->type_name, "cuda") == 0;
  const figure *f = figures;
  while (strcmp(f->name, bench->experiment) != 0)
    f++;
  GCONV_ENDED_BY(free_stream) stream s = {.window = 0};
  gconv_status status = GCONV_OK;
  GCONV_TRY(fill_stream(window, &s));
  if (!f->speed_up || !bench->all)
    measure_cores(bench, f, &s, bench->one, TOGETHER);
  else /* only the outputs of one core are needed, to compare other outputs with them */
    status = measure_plan(bench, &s, bench->one, TOGETHER, &(gconv_bench_row){.algorithm = "one-core"});
  if (bench->all && (f->cores || !on_gpu))
    measure_cores(bench, f, &s, bench->all, TOGETHER);
  if (f->launches && !on_gpu)
    measure_calls(bench, f, &s);
#ifdef GCONV_WITH_CUDA
  if (on_gpu)
    measure_gpu(bench, f, &s);
#endif
  return status;
}
