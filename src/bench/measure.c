/* SPDX-License-Identifier: MIT */
/* Measures the median time of runs on the device, and checks their results. */
#include "base/memory.h"
#include "base/printable.h"
#include "bench/bench.h"
#include "bench/make_plan.h"
#include "operation/operation.h"

#include <string.h>

void gconv_bench_say(const gconv_bench *bench, const char *format, ...) {
  char text[1024];
  GCONV_FORMAT(text, sizeof text, format);
  bench->say(text);
}

static int compare_numbers(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

double gconv_bench_median(double *numbers, int count) {
  qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
  return numbers[count / 2];
}

void gconv_bench_take_times(gconv_bench_row *row, double *milliseconds, int runs) {
  row->ms = gconv_bench_median(milliseconds, runs); /* which sorts them */
  row->spread_ms = milliseconds[3 * runs / 4] - milliseconds[runs / 4];
}

gconv_status gconv_bench_time_runs(gconv_bench_row *row, int runs, gconv_status (*work)(const void *user, double *ms),
                                   const void *user) {
  GCONV_FREED double *milliseconds = calloc((size_t)runs, sizeof *milliseconds);
  GCONV_NEED_MEMORY(milliseconds, "out of memory");
  for (int i = 0; i < runs; i++)
    GCONV_TRY(work(user, &milliseconds[i]));
  gconv_bench_take_times(row, milliseconds, runs);
  return GCONV_OK;
}

void gconv_bench_note_error(gconv_bench_row *row, double difference) {
  row->error = difference <= row->error ? row->error : difference;
}

/* Algorithms whose estimate is more than this many times the estimate of auto's choice are not worth measuring. */
static const double HOPELESS = 6;

/* ---- One plan ---- */

int gconv_bench_affordable_runs(double estimate_ms, int runs) {
  const double most_ms = 1000;
  const int fewest = runs < 3 ? runs : 3;
  if (estimate_ms * runs <= most_ms)
    return runs;
  return estimate_ms * fewest > most_ms ? fewest : (int)(most_ms / estimate_ms);
}

gconv_status gconv_bench_time(gconv_plan *plan, const gconv_image *image, gconv_image *outputs, int runs,
                              gconv_bench_row *row) {
  runs = gconv_bench_affordable_runs(gconv_plan_get_info(plan)->estimate_ms, runs);
  GCONV_FREED double *milliseconds = calloc((size_t)runs, sizeof *milliseconds);
  GCONV_NEED_MEMORY(milliseconds, "out of memory");
  GCONV_TRY(gconv_plan_measure(plan, image, outputs, runs, milliseconds));
  gconv_bench_take_times(row, milliseconds, runs);
  return GCONV_OK;
}

typedef struct execution {
  gconv_plan *plan;
  const gconv_image *image;
  gconv_image *outputs;
} execution;

static gconv_status execute(void *user) {
  const execution *e = user;
  return gconv_plan_execute(e->plan, e->image, e->outputs, gconv_plan_outputs(e->plan), NULL);
}

void gconv_bench_profile(gconv_bench *bench, gconv_plan *plan, const gconv_image *image, gconv_bench_row *row) {
  if (!bench->profiler || row->against)
    return;
  const size_t count = gconv_plan_outputs(plan);
  execution e = {plan, image, calloc(count, sizeof *e.outputs)};
  if (e.outputs && execute(&e) == GCONV_OK)
    gconv_bench_profile_work(bench, execute, &e, row);
  gconv_bench_free_images(e.outputs, count);
}

void gconv_bench_profile_work(gconv_bench *bench, gconv_status (*work)(void *user), void *user, gconv_bench_row *row) {
  if (!bench->profiler)
    return;
  const gconv_status status = gconv_profiler_run(bench->profiler, work, user, &row->profile);
  if (status == GCONV_OK)
    return;
  gconv_bench_say(bench, "%s, %s, %s: --profile: %s", row->algorithm, row->group, row->filter, gconv_last_error());
  bench->failed = true;
  if (status == GCONV_UNSUPPORTED) { /* the next row would have none either */
    gconv_profiler_close(bench->profiler);
    bench->profiler = NULL;
  }
}

/* Compares a few rows of the results, or all rows with --verify, with float64. */
static gconv_status check_results(const gconv_bench *bench, gconv_plan *plan, const gconv_image *image,
                                  const gconv_image *outputs, gconv_bench_row *row) {
  const double budget = 1e7; /* some ms */
  gconv_verification result = {0};
  gconv_status status = bench->grid->verify ? gconv_plan_verify(plan, image, outputs, gconv_plan_outputs(plan), -1, &result)
                                            : gconv_plan_spot_check(plan, image, outputs, budget, &result);
  row->checked = status == GCONV_OK || status == GCONV_MISMATCH;
  row->error = result.max_error;
  row->allowed = result.allowed;
  return status;
}

static gconv_status measure_plan(gconv_bench *bench, gconv_plan *plan, const gconv_image *image, gconv_bench_row *row) {
  const gconv_plan_info *info = gconv_plan_get_info(plan);
  row->chosen = info->algorithm;
  row->rows = info->rows;
  row->columns = info->columns;
  row->samples = (double)info->out_height * info->out_width * info->out_channels * info->frames;
  row->bytes = info->bytes;
  row->flop = info->flop;
  row->estimate_ms = info->estimate_ms;
  if (info->estimate_ms > bench->patience_ms) {
    snprintf(row->obstacle, sizeof row->obstacle, "not waited for: estimated at %.3g ms", info->estimate_ms);
    return GCONV_OK;
  }
  size_t count = gconv_plan_outputs(plan);
  gconv_image *outputs = calloc(count, sizeof *outputs);
  gconv_status status = outputs ? gconv_bench_time(plan, image, outputs, bench->grid->runs, row)
                                : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  if (status == GCONV_OK && !bench->unchecked)
    status = check_results(bench, plan, image, outputs, row);
  if (status == GCONV_OK)
    gconv_bench_profile(bench, plan, image, row);
  gconv_bench_free_images(outputs, count);
  return status;
}

const char *gconv_bench_obstacle(const char *text) {
  const char *algorithm = strstr(text, "the algorithm ");
  const char *colon = algorithm ? strstr(algorithm, ": ") : NULL;
  return colon ? colon + 2 : text;
}

/* Returns whether an algorithm is measured only by request: the definition, and the classics for GPUs. */
static bool is_to_learn_from(const char *name) {
  const char *kind = strrchr(name, '-');
  return strcmp(name, "reference") == 0 || (kind && strcmp(kind, "-classic") == 0);
}

bool gconv_bench_has_algorithm(const gconv_bench *bench, bool layers, const char *name) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = layers ? gconv_layer_algorithm_at(i) : gconv_algorithm_at(i)); i++)
    if (strcmp(info->device, bench->type_name) == 0 && strcmp(info->name, name) == 0)
      return true;
  return false;
}

const char *gconv_bench_algorithm_at(const gconv_bench *bench, bool layers, size_t index) {
  const gconv_texts *names = &bench->grid->algorithms;
  const gconv_algorithm_info *info;
  if (names->count > 0)
    return index < names->count ? names->items[index] : NULL;
  for (size_t i = 0; (info = layers ? gconv_layer_algorithm_at(i) : gconv_algorithm_at(i)); i++)
    if (strcmp(info->device, bench->type_name) == 0 && !is_to_learn_from(info->name) && index-- == 0)
      return info->name;
  return NULL;
}

void gconv_bench_take_status(gconv_bench *bench, gconv_bench_row *row, gconv_status status) {
  if (status == GCONV_OK)
    return;
  snprintf(row->obstacle, sizeof row->obstacle, "%s", gconv_bench_obstacle(gconv_last_error()));
  gconv_make_printable(row->obstacle);
  if (status != GCONV_UNSUPPORTED) {
    gconv_bench_say(bench, "%s, %s, %s: %s", row->algorithm, row->group, row->filter, gconv_last_error());
    bench->failed = true;
  }
}

static gconv_options common_options(const gconv_filters *filters) {
  gconv_options options = gconv_options_default();
  options.combine = filters->count > 1 ? GCONV_COMBINE_MAGNITUDE : GCONV_COMBINE_NONE;
  return options;
}

void gconv_bench_measure(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, gconv_bench_row *row) {
  gconv_options options = common_options(filters);
  options.algorithm = row->algorithm;
  options.block_width = row->block.width;
  options.block_height = row->block.height;
  options.grid_blocks = row->grid;
  gconv_plan *plan = NULL;
  gconv_status status = gconv_plan_filters(bench->device, image, filters, &options, &plan);
  GCONV_THEN(status, measure_plan(bench, plan, image, row));
  gconv_bench_take_status(bench, row, status);
  gconv_plan_free(plan);
}

const char *gconv_bench_ask_auto(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters) {
  gconv_options options = common_options(filters);
  gconv_plan *plan = NULL;
  if (gconv_plan_filters(bench->device, image, filters, &options, &plan) != GCONV_OK)
    return NULL;
  const gconv_plan_info *info = gconv_plan_get_info(plan);
  const char *name = info->algorithm;
  bench->patience_ms = HOPELESS * info->estimate_ms;
  gconv_plan_free(plan);
  return name;
}

void gconv_bench_keep(gconv_bench *bench, const gconv_bench_row *row) {
  gconv_bench_row *rows = gconv_grown(bench->rows, bench->count, sizeof *rows);
  bench->failed |= !rows;
  if (!rows)
    return;
  bench->rows = rows;
  rows[bench->count] = *row;
  if (row->threads == 0)
    rows[bench->count].threads = gconv_threads_allowed(bench->threads);
  if (!row->against) { /* the machine's rates are of bench->device */
    rows[bench->count].of_copy = row->bytes / row->ms / bench->machine.bytes_per_ms;
    rows[bench->count].of_fma = row->flop / 2 / row->ms / bench->machine.fma_per_ms;
  }
  bench->count++;
}

/* ---- The device ---- */

gconv_status gconv_bench_open(gconv_bench *bench, const char *device, int threads) {
  const char *name = device ? device : getenv("GCONV_DEVICE");
  bench->threads = threads;
  if (gconv_device_open(name && *name ? name : "auto", threads, &bench->device) != GCONV_OK)
    return GCONV_UNSUPPORTED;
  bench->type_name = strcmp(gconv_device_get_info(bench->device)->name, "cpu") == 0 ? "cpu" : "cuda";
  return GCONV_OK;
}

gconv_status gconv_bench_measure_machine(gconv_bench *bench) {
  return gconv_device_measure(bench->device, &bench->machine);
}

void gconv_bench_close(gconv_bench *bench) {
  free(bench->rows);
  gconv_profiler_close(bench->profiler);
  gconv_device_close(bench->one);
  gconv_device_close(bench->all);
  gconv_device_close(bench->other);
  gconv_device_close(bench->device);
  bench->device = bench->other = NULL;
}

/* ---- The grid ---- */

static gconv_status visit_filters(gconv_bench *bench, gconv_bench_visit *visit, const gconv_image *image,
                                  gconv_bench_row *shape) {
  const gconv_bench_grid *grid = bench->grid;
  for (size_t i = 0; i < grid->filters.count + (size_t)grid->sizes.count; i++) {
    gconv_filters filters = {0};
    bool named = i < grid->filters.count;
    int32_t size = named ? 0 : grid->sizes.items[i - grid->filters.count];
    if (named)
      snprintf(shape->filter, sizeof shape->filter, "%s", grid->filters.items[i]);
    else
      snprintf(shape->filter, sizeof shape->filter, "random %dx%d", size, size);
    gconv_make_printable(shape->filter); /* for tables, CSV and the script of gnuplot */
    gconv_status status =
        named ? gconv_filters_read(grid->filters.items[i], NULL, &filters) : gconv_bench_random_filter(size, &filters);
    if (status == GCONV_OK)
      visit(bench, image, &filters, shape);
    gconv_filters_free(&filters);
    if (status != GCONV_OK)
      return named ? GCONV_BAD_ARGUMENT : status;
  }
  return GCONV_OK;
}

gconv_status gconv_bench_walk(gconv_bench *bench, gconv_bench_visit *visit) {
  const gconv_bench_grid *grid = bench->grid;
  for (int i = 0; i < grid->image_count * grid->type_count; i++) {
    gconv_bench_row shape = {
        .image = grid->images[i / grid->type_count], .type = grid->types[i % grid->type_count], .images = 1, .filters = 1};
    const gconv_bench_image *image_shape = &shape.image;
    shape.image.planar |= grid->planar;
    size_t used =
        (size_t)snprintf(shape.group, sizeof shape.group, "%dx%dx%d %s %s", image_shape->width, image_shape->height,
                         image_shape->channels, gconv_type_name(shape.type), image_shape->planar ? "planes" : "interleaved");
    if (grid->several_threads)
      snprintf(shape.group + used, sizeof shape.group - used, ", threads %d", bench->threads);
    gconv_image image;
    gconv_status status = gconv_bench_make_image(&shape.image, shape.type, &image);
    GCONV_THEN(status, visit_filters(bench, visit, &image, &shape));
    gconv_image_free(&image);
    if (status != GCONV_OK)
      return status;
  }
  return GCONV_OK;
}
