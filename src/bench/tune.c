/* SPDX-License-Identifier: MIT */
/* Measures the error of estimates on this machine, and stores it for auto. */
#include "base/memory.h"
#include "bench/bench.h"
#include "operation/tuning.h"

#include <math.h>
#include <string.h>

/* ---- Measuring ---- */

/* Images, from a size bound by the launch to a size bound by bandwidth. Other images count as the nearest of these. A CPU
 * would need minutes for the large ones, and a smaller image exceeds its caches already. */
static const gconv_bench_image gpu_images[] = {{256, 256, 1, false},   {1024, 1024, 1, false}, {3840, 2160, 1, false},
                                               {256, 256, 3, false},   {1024, 1024, 3, false}, {3840, 2160, 3, false},
                                               {7680, 4320, 1, false}, {7680, 4320, 3, false}, {0, 0, 0, false}};
static const gconv_bench_image cpu_images[] = {
    {256, 256, 1, false}, {1536, 1024, 1, false}, {256, 256, 3, false}, {1536, 1024, 3, false}, {0, 0, 0, false}};
static const gconv_bench_image quick_images[] = {{256, 256, 1, false}, {512, 512, 3, false}, {0, 0, 0, false}};
static const int32_t sizes[] = {3, 5, 7, 9, 11, 15, 21, 31, 63, 0}, quick_sizes[] = {3, 7, 15, 0};
/* Filters for algorithms that do not support random taps. */
static const struct {
  const char *algorithm, *filter;
} special[] = {
    {"separable", "gaussian:size=3,sigma=0.6"},
    {"separable", "gaussian:size=5,sigma=1"},
    {"separable", "gaussian:size=9,sigma=1.5"},
    {"separable", "gaussian:size=15,sigma=2.5"},
    {"separable", "gaussian:size=31,sigma=5"},
    {"separable", "gaussian:size=63,sigma=10"},
    {"integer", "binomial:size=3"},
    {"integer", "binomial:size=5"},
};

static bool fill_grid(bool quick, bool cpu, gconv_bench_grid *grid) {
  const gconv_bench_image *images = quick ? quick_images : cpu ? cpu_images : gpu_images;
  bool complete = true;
  for (; images->width > 0; images++)
    grid->images[grid->image_count++] = *images;
  for (const int32_t *size = quick ? quick_sizes : sizes; *size > 0; size++)
    grid->sizes.items[grid->sizes.count++] = *size;
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    complete &= gconv_texts_add(&grid->filters, strdup(special[i].filter));
  for (int type = GCONV_U8; type <= (quick ? GCONV_U8 : GCONV_F32); type++)
    grid->types[grid->type_count++] = (gconv_type)type;
  grid->runs = 7;
  return complete;
}

typedef struct tuning_walk {
  gconv_tuning tuning;
  bool failed;
} tuning_walk;

static bool same_line(const gconv_tuning_row *a, const gconv_tuning_row *b) {
  return a->layer == b->layer && strcmp(a->algorithm, b->algorithm) == 0 && a->type == b->type &&
         a->channels == b->channels && a->samples == b->samples;
}

/* Adds the ratio of a measured row with this problem, unless another filter of this size has given the ratio. */
static void learn(tuning_walk *walk, const gconv_bench_row *row, gconv_tuning_row problem) {
  gconv_tuning *tuning = &walk->tuning;
  if (row->obstacle[0] != '\0' || !(row->ms > 0) || !(row->estimate_ms > 0))
    return;
  snprintf(problem.algorithm, sizeof problem.algorithm, "%s", row->chosen);
  problem.type = row->type;
  problem.ratio = round(1e3 * fmin(fmax(row->ms / row->estimate_ms, 0.01), 100)) / 1e3; /* rounded as in the file */
  for (size_t i = 0; i < tuning->count; i++)
    if (same_line(&tuning->rows[i], &problem) && tuning->rows[i].taps == problem.taps)
      return;
  gconv_tuning_row *rows = gconv_grown(tuning->rows, tuning->count, sizeof *rows);
  walk->failed |= !rows;
  if (!rows)
    return;
  tuning->rows = rows;
  rows[tuning->count++] = problem;
}

static void show(const gconv_bench *bench, const gconv_bench_row *shape) {
  char text[160];
  snprintf(text, sizeof text, "%s, %s", shape->group, shape->filter);
  if (bench->progress)
    bench->progress(text);
}

/* Returns the algorithm for which a filter is meant; NULL: all. */
static const char *find_special(const char *filter) {
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    if (strcmp(special[i].filter, filter) == 0)
      return special[i].algorithm;
  return NULL;
}

static void visit(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, const gconv_bench_row *shape) {
  tuning_walk *walk = bench->user;
  const char *algorithm, *only = find_special(shape->filter);
  show(bench, shape);
  if (!gconv_bench_ask_auto(bench, image, filters))
    return;
  for (size_t i = 0; (algorithm = gconv_bench_algorithm_at(bench, false, i)); i++) {
    if (only && strcmp(algorithm, only) != 0)
      continue;
    gconv_bench_row row = *shape;
    row.algorithm = algorithm;
    gconv_bench_measure(bench, image, filters, &row);
    learn(walk, &row,
          (gconv_tuning_row){.channels = row.image.planar ? 1 : row.image.channels,
                             .samples = row.samples,
                             .taps = (double)row.rows * row.columns});
  }
}

/* ---- Layers ---- */

/* The numbers of outputs of a layer, and of its filters: few or many. */
static const int32_t layer_outputs[] = {1 << 16, 1 << 20, 1 << 24}, layer_filters[] = {16, 64};

/* Filters of C x R x R: first layers, with few channels, and later layers. */
static const struct { int32_t channels, size; } layer_shapes[] = {{3, 3}, {3, 7}, {64, 3}, {256, 3}};

enum { OUTPUTS = 3, FILTERS = 2, SHAPES = 4 };

/* Samples of an input. Larger inputs take longer to make than to convolve, and are left out. */
static const double MOST_INPUT = 24e6;

static gconv_status measure_layer(gconv_bench *bench, tuning_walk *walk, gconv_bench_row *shape) {
  GCONV_ENDED_BY(gconv_bench_free_layer) gconv_bench_layer data = {0};
  const gconv_tuning_row problem = {.layer = true,
                                    .channels = gconv_tuning_layer_class(shape->filters),
                                    .samples = shape->samples,
                                    .taps = (double)shape->image.channels * shape->rows * shape->columns};
  gconv_status status = gconv_bench_make_layer(&shape->image, 1, shape->filters, shape->rows, &data);
  show(bench, shape);
  for (size_t i = 0; status == GCONV_OK && (shape->algorithm = gconv_bench_algorithm_at(bench, true, i)); i++) {
    gconv_bench_row row = *shape;
    gconv_bench_measure_layer(bench, &data, GCONV_LAYER_SAME, &row);
    learn(walk, &row, problem);
  }
  return status;
}

static gconv_status measure_layers(gconv_bench *bench, tuning_walk *walk, bool quick) {
  int outputs = quick ? 1 : strcmp(bench->type_name, "cpu") == 0 ? 2 : OUTPUTS;
  for (int i = 0; i < outputs * FILTERS * SHAPES; i++) {
    int32_t filters = layer_filters[i / SHAPES % FILTERS], samples = layer_outputs[i / SHAPES / FILTERS];
    int32_t channels = layer_shapes[i % SHAPES].channels, size = layer_shapes[i % SHAPES].size;
    int32_t side = (int32_t)lround(sqrt((double)samples / filters));
    gconv_bench_row shape = {.image = {side, side, channels, true},
                             .type = GCONV_F32,
                             .samples = samples,
                             .filters = filters,
                             .rows = size,
                             .columns = size};
    snprintf(shape.group, sizeof shape.group, "%d x %d x %d", channels, side, side);
    snprintf(shape.filter, sizeof shape.filter, "%d filters of %d x %d", filters, size, size);
    if ((double)channels * side * side <= MOST_INPUT && (!quick || channels < 256))
      GCONV_TRY(measure_layer(bench, walk, &shape));
  }
  return GCONV_OK;
}

/* ---- Reports ---- */

static void print_machine(FILE *out, const gconv_machine *machine) {
  fprintf(out, "copies %.0f GB/s read + written, multiply-adds %.3g TFLOP/s, an empty launch %.1f us\n",
          machine->bytes_per_ms * 1e-6, machine->fma_per_ms * 2e-9, machine->launch_ms * 1e3);
}

/* Prints a line for each algorithm, type and image, with the ratio after each size of filters. */
static void print_rows(FILE *out, const gconv_tuning *tuning) {
  fprintf(out, "milliseconds measured / estimated, by the size of the filter:\n");
  for (size_t i = 0; i < tuning->count; i++) {
    const gconv_tuning_row *row = &tuning->rows[i];
    bool begun = false;
    for (size_t j = 0; j < i && !begun; j++)
      begun = same_line(&tuning->rows[j], row);
    if (begun)
      continue;
    if (row->layer)
      fprintf(out, "%-13s layer, %s filters %9.0f outputs, by taps:", row->algorithm, row->channels == 1 ? "few" : "many",
              row->samples);
    else
      fprintf(out, "%-13s %-3s x%d %9.0f samples:", row->algorithm, gconv_type_name(row->type), row->channels, row->samples);
    for (size_t j = i; j < tuning->count; j++)
      if (same_line(&tuning->rows[j], row))
        fprintf(out, " %.0f:%.2f", row->layer ? tuning->rows[j].taps : sqrt(tuning->rows[j].taps), tuning->rows[j].ratio);
    fputc('\n', out);
  }
}

void gconv_tune_print(FILE *out, const gconv_device *device) {
  const gconv_tuning *tuning = gconv_device_get_tuning(device);
  char *path = gconv_device_tuning_path(device);
  const gconv_device_info *info = gconv_device_get_info(device);
  fprintf(out, "%s (%s): %s%s\n", info->name, info->description,
          tuning ? "tuned by "
          : path ? "not tuned; gconv tune would store it in "
                 : "not tuned; nothing is stored, as GCONV_CACHE is empty or HOME is not set",
          path ? path : "");
  if (tuning) {
    print_machine(out, &tuning->machine);
    print_rows(out, tuning);
  }
  free(path);
}

/* ---- The work ---- */

/* Checks that the file of the device can be written, by writing the present tuning or, if there is none, the measured
 * machine. Then sets a tuning without ratios: until the end, estimates follow from the measured machine alone. */
static gconv_status prepare(gconv_bench *bench) {
  gconv_tuning bare = {.machine = bench->machine};
  gconv_status status = GCONV_OK;
  if (!gconv_device_get_tuning(bench->device))
    status = gconv_device_set_tuning(bench->device, &bare);
  GCONV_THEN(status, gconv_device_remember_tuning(bench->device));
  return status == GCONV_OK ? gconv_device_set_tuning(bench->device, &bare) : status;
}

static gconv_status measure_all(gconv_bench *bench, tuning_walk *walk, bool quick) {
  GCONV_TRY(prepare(bench));
  GCONV_TRY(gconv_bench_walk(bench, visit));
  GCONV_TRY(measure_layers(bench, walk, quick));
  walk->tuning.machine = bench->machine;
  GCONV_TRY(gconv_device_set_tuning(bench->device, &walk->tuning));
  return gconv_device_remember_tuning(bench->device);
}

gconv_status gconv_tune(gconv_bench *bench, bool quick) {
  gconv_bench_grid grid = {0};
  tuning_walk walk = {.failed = false};
  bench->grid = &grid;
  bench->unchecked = true;
  bench->user = &walk;
  gconv_status status = GCONV_OK;
  if (!fill_grid(quick, strcmp(bench->type_name, "cpu") == 0, &grid))
    status = gconv_fail(GCONV_NO_MEMORY, "out of memory");
  GCONV_THEN(status, measure_all(bench, &walk, quick));
  bench->failed |= walk.failed;
  gconv_tuning_free(&walk.tuning);
  gconv_texts_free(&grid.filters);
  bench->grid = NULL;
  bench->user = NULL;
  return status;
}

gconv_status gconv_tune_forget(gconv_device *device) {
  GCONV_TRY(gconv_device_set_tuning(device, NULL));
  return gconv_device_remember_tuning(device);
}
