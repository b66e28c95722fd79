/* SPDX-License-Identifier: MIT */
/*
 * The experiment transfers: a batch of images is copied to the GPU, goes through a layer, and is copied back. Host memory is
 * pageable, as malloc() returns it, or pinned, so that the GPU itself reads and writes it. Pinning takes long; so one method
 * pins again for each batch. gconv's own method leaves images in pageable memory, and copies them through small pinned
 * slabs. `items` are gigabytes that are copied. Results of all methods must have the same bits.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "bench/bench.h"
#include "bench/make_plan.h"
#include "device/device.h"

#include <string.h>

#ifdef GCONV_WITH_CUDA

enum { SIDE = 256, CHANNELS = 3, FILTERS = 16, SIZE = 8 };

typedef struct transfer {
  gconv_bench_layer data;
  gconv_plan *plan;
  gconv_image out, expected;       /* results of a method, and of gconv's own */
  gconv_array in_array, out_array; /* without data */
  gconv_trip_times *times;         /* times of each run */
  double *numbers;                 /* one time of each run */
} transfer;

static void free_transfer(transfer *t) {
  gconv_plan_free(t->plan);
  gconv_bench_free_layer(&t->data);
  gconv_image_free(&t->out);
  gconv_image_free(&t->expected);
  free(t->times);
  free(t->numbers);
}

static size_t bytes_of(const gconv_image *image) {
  return (size_t)image->frames * (size_t)image->channels * image->plane_bytes;
}

static gconv_array describe(const gconv_image *image) {
  return (gconv_array){
      .type = image->type,
      .shape = {image->frames, image->channels, image->height, image->width},
      .stride = {(int64_t)image->plane_bytes * image->channels, (int64_t)image->plane_bytes, (int64_t)image->row_bytes,
                 sizeof(float)},
  };
}

static gconv_status prepare(gconv_bench *bench, int32_t images, transfer *t) {
  const gconv_bench_image shape = {SIDE, SIDE, CHANNELS, true};
  const int runs = bench->grid->runs;
  t->times = calloc((size_t)runs, sizeof *t->times);
  t->numbers = calloc((size_t)runs, sizeof *t->numbers);
  GCONV_NEED_MEMORY(t->times && t->numbers, "out of memory");
  GCONV_TRY(gconv_bench_make_layer(&shape, images, FILTERS, SIZE, &t->data));
  const gconv_layer layer = {.bank = &t->data.bank, .padding = GCONV_LAYER_VALID, .groups = 1};
  const gconv_network_options options = {.algorithm = "auto"};
  GCONV_TRY(gconv_plan_layers(bench->device, &t->data.in, &layer, 1, &options, 0, &t->plan));
  GCONV_TRY(gconv_plan_execute(t->plan, &t->data.in, &t->expected, 1, NULL));
  GCONV_TRY(gconv_plan_execute(t->plan, &t->data.in, &t->out, 1, NULL));
  t->in_array = describe(&t->data.in);
  t->out_array = describe(&t->out);
  return GCONV_OK;
}

/* ---- Methods ---- */

static gconv_status work(void *user, void *in, void *out, void *stream) {
  const transfer *t = user;
  gconv_array from = t->in_array, to = t->out_array;
  from.data = in;
  to.data = out;
  return gconv_plan_execute_device(t->plan, &from, &to, 1, stream);
}

static gconv_status go_by_slabs(const transfer *t, int runs) {
  for (int i = -2; i < runs; i++) {
    gconv_timings timings;
    gconv_image out = t->out; /* it has its pixels already */
    const double start = gconv_now_ms();
    GCONV_TRY(gconv_plan_execute(t->plan, &t->data.in, &out, 1, &timings));
    if (i >= 0)
      t->times[i] = (gconv_trip_times){timings.upload_ms, timings.download_ms, gconv_now_ms() - start};
  }
  return GCONV_OK;
}

typedef struct way {
  const char *name;
  int memory; /* a gconv_trip_memory; -1: gconv's own */
} way;

static const way ways[] = {{"pageable", GCONV_TRIP_PAGEABLE},
                           {"pinned", GCONV_TRIP_PINNED},
                           {"pinned-anew", GCONV_TRIP_PINNED_ANEW},
                           {"gconv", -1}};

static gconv_status go(gconv_bench *bench, const transfer *t, const way *by) {
  const gconv_trip trip = {.memory = (gconv_trip_memory)by->memory,
                           .from = t->data.in.data,
                           .to = t->out.data,
                           .from_bytes = bytes_of(&t->data.in),
                           .to_bytes = bytes_of(&t->out),
                           .work = work,
                           .user = (void *)t};
  memset(t->out.data, 0, trip.to_bytes);
  GCONV_TRY(by->memory < 0 ? go_by_slabs(t, bench->grid->runs)
                           : gconv_cuda_measure_trips(bench->device, &trip, bench->grid->runs, t->times));
  if (memcmp(t->out.data, t->expected.data, trip.to_bytes) != 0)
    return gconv_fail(GCONV_MISMATCH, "its results differ from the results of gconv's own way");
  return GCONV_OK;
}

/* ---- Rows ---- */

enum { UP, DOWN, WHOLE, PARTS };

static gconv_bench_row make_row(const gconv_bench *bench, const transfer *t, const way *by, int part) {
  static const char *const names[] = {"up", "down", "whole"};
  const double up = (double)bytes_of(&t->data.in) * 1e-9, down = (double)bytes_of(&t->out) * 1e-9;
  const int runs = bench->grid->runs;
  gconv_bench_row row = {.algorithm = by->name, .place = t->data.in.frames, .checked = true};
  row.items = part == UP ? up : part == DOWN ? down : up + down;
  snprintf(row.filter, sizeof row.filter, "%s", names[part]);
  snprintf(row.group, sizeof row.group, "%d x %dx%dx%d, %d filters %dx%d: %.1f MB up, %.1f MB down", t->data.in.frames,
           CHANNELS, SIDE, SIDE, FILTERS, SIZE, SIZE, 1e3 * up, 1e3 * down);
  for (int i = 0; i < runs; i++)
    t->numbers[i] = part == UP ? t->times[i].up_ms : part == DOWN ? t->times[i].down_ms : t->times[i].whole_ms;
  gconv_bench_take_times(&row, t->numbers, runs);
  return row;
}

/* Measures all methods, then prints the rows, which are sorted by parts. */
gconv_status gconv_bench_transfers(gconv_bench *bench, int32_t images) {
  enum { WAYS = sizeof ways / sizeof *ways };
  gconv_bench_row rows[PARTS][WAYS];
  GCONV_ENDED_BY(free_transfer) transfer t = {.plan = NULL};
  if (strcmp(bench->type_name, "cuda") != 0)
    return GCONV_OK;
  GCONV_TRY(prepare(bench, images, &t));
  for (int i = 0; i < WAYS; i++) {
    const gconv_status gone = go(bench, &t, &ways[i]);
    for (int part = 0; part < PARTS; part++) {
      rows[part][i] = make_row(bench, &t, &ways[i], part);
      gconv_bench_take_status(bench, &rows[part][i], gone);
    }
  }
  for (int i = 0; i < PARTS * WAYS; i++)
    if (ways[i % WAYS].memory != GCONV_TRIP_PINNED_ANEW ||
        i / WAYS == WHOLE) /* its copies are as fast as with pinned memory */
      gconv_bench_end_row(bench, &rows[i / WAYS][i % WAYS], GCONV_OK);
  return GCONV_OK;
}

#else

gconv_status gconv_bench_transfers(gconv_bench *bench, int32_t images) {
  return GCONV_OK;
}

#endif
