/* SPDX-License-Identifier: MIT */
/* What estimates are worth on this machine: measured, and remembered for the choices of auto. */
#include "cli/bench.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/threads.h"
#include "cli/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct tune_settings {
  const char *device;
  int threads;
  bool show, forget, quick;
} tune_settings;

static const gconv_option options[] = {
    {.letter = 'd',
     .name = "device",
     .value = "NAME",
     .help = "auto (default: a GPU if one can be used), cpu, cuda or cuda:N; without it, $GCONV_DEVICE counts",
     .parse = gconv_option_text,
     .field = offsetof(tune_settings, device)},
    {.name = "threads",
     .value = "N",
     .help = GCONV_THREADS_HELP,
     .parse = gconv_option_integer,
     .field = offsetof(tune_settings, threads),
     .least = 1,
     .most = GCONV_MOST_THREADS},
    {.name = "quick",
     .help = "u8 and three sizes of filters only",
     .parse = gconv_option_flag,
     .field = offsetof(tune_settings, quick)},
    {.name = "show",
     .help = "print what is remembered, and measure nothing",
     .parse = gconv_option_flag,
     .field = offsetof(tune_settings, show)},
    {.name = "forget",
     .help = "remove what is remembered, and measure nothing",
     .parse = gconv_option_flag,
     .field = offsetof(tune_settings, forget)},
    GCONV_OPTIONS_END,
};

/* ---- Measuring ---- */

/* Images from those that take a launch to those that take bandwidth: what is smaller or larger is taken for the next of
 * them. A CPU would need minutes for a large image, and has no caches to outgrow that a smaller one does not. */
static const gconv_bench_image gpu_images[] = {{256, 256, 1, false},   {1024, 1024, 1, false}, {3840, 2160, 1, false},
                                               {256, 256, 3, false},   {1024, 1024, 3, false}, {3840, 2160, 3, false},
                                               {7680, 4320, 1, false}, {7680, 4320, 3, false}, {0, 0, 0, false}};
static const gconv_bench_image cpu_images[] = {
    {256, 256, 1, false}, {1536, 1024, 1, false}, {256, 256, 3, false}, {1536, 1024, 3, false}, {0, 0, 0, false}};
static const gconv_bench_image quick_images[] = {{256, 256, 1, false}, {512, 512, 3, false}, {0, 0, 0, false}};
static const int32_t sizes[] = {3, 5, 7, 9, 11, 15, 21, 31, 63, 0}, quick_sizes[] = {3, 7, 15, 0};
/* Filters for algorithms that cannot do random taps. */
static const char *const smooth[] = {"gaussian:size=3,sigma=0.6",  "gaussian:size=5,sigma=1",  "gaussian:size=9,sigma=1.5",
                                     "gaussian:size=15,sigma=2.5", "gaussian:size=31,sigma=5", "gaussian:size=63,sigma=10"};

static bool fill_grid(const tune_settings *settings, bool cpu, gconv_bench_settings *grid) {
  const gconv_bench_image *images = settings->quick ? quick_images : cpu ? cpu_images : gpu_images;
  bool complete = true;
  for (; images->width > 0; images++)
    grid->images[grid->image_count++] = *images;
  for (const int32_t *size = settings->quick ? quick_sizes : sizes; *size > 0; size++)
    grid->sizes[grid->size_count++] = *size;
  for (size_t i = 0; i < sizeof smooth / sizeof *smooth; i++)
    complete &= gconv_texts_add(&grid->filters, strdup(smooth[i]));
  for (int type = GCONV_U8; type <= (settings->quick ? GCONV_U8 : GCONV_F32); type++)
    grid->types[grid->type_count++] = (gconv_type)type;
  grid->runs = 7;
  return complete;
}

typedef struct tuning_walk {
  gconv_tuning tuning;
  bool progress, failed;
} tuning_walk;

static bool is_measured(const gconv_tuning *tuning, const gconv_tuning_row *row) {
  for (size_t i = 0; i < tuning->count; i++) {
    const gconv_tuning_row *old = &tuning->rows[i];
    if (old->layer == row->layer && strcmp(old->algorithm, row->algorithm) == 0 && old->type == row->type &&
        old->channels == row->channels && old->samples == row->samples && old->taps == row->taps)
      return true;
  }
  return false;
}

static void keep(tuning_walk *walk, const gconv_tuning_row *row) {
  gconv_tuning_row *rows = gconv_grown(walk->tuning.rows, walk->tuning.count, sizeof *rows);
  walk->failed |= !rows;
  if (!rows)
    return;
  walk->tuning.rows = rows;
  rows[walk->tuning.count++] = *row;
}

/* Learns from a row, unless it was not measured, or the ratio is known from another filter of this size. */
static void learn(tuning_walk *walk, const gconv_bench_row *row) {
  if (row->obstacle[0] != '\0' || !(row->ms > 0) || !(row->estimate_ms > 0))
    return;
  gconv_tuning_row found = {.algorithm = row->chosen,
                            .type = row->type,
                            .channels = row->image.planar ? 1 : row->image.channels,
                            .samples = row->samples,
                            .taps = (double)row->rows * row->columns,
                            .ratio = round(1e3 * fmin(fmax(row->ms / row->estimate_ms, 0.01), 100)) /
                                     1e3}; /* as it is read back */
  if (!is_measured(&walk->tuning, &found))
    keep(walk, &found);
}

static void learn_layer(const gconv_tuning_row *row, void *user) {
  keep(user, row);
}

static void show_layer(const char *text, void *user) {
  const tuning_walk *walk = user;
  if (walk->progress)
    gconv_progress_show(text);
}

static void show_progress(const gconv_bench_row *shape) {
  char image[64], text[160];
  gconv_bench_name_image(shape, image, sizeof image);
  snprintf(text, sizeof text, "%s, %s", image, shape->filter);
  gconv_progress_show(text);
}

static void visit(gconv_bench *bench, const gconv_image *image, const gconv_filters *filters, const gconv_bench_row *shape,
                  void *user) {
  tuning_walk *walk = user;
  bool is_smooth = strncmp(shape->filter, "gaussian", 8) == 0;
  const gconv_algorithm_info *info;
  if (walk->progress)
    show_progress(shape);
  if (!gconv_bench_ask_auto(bench, image, filters))
    return;
  for (size_t i = 0; (info = gconv_algorithm_at(i)); i++) {
    if (strcmp(info->device, bench->type_name) != 0 || strcmp(info->name, "reference") == 0 ||
        (is_smooth && strcmp(info->name, "separable") != 0))
      continue;
    gconv_bench_row row = *shape;
    row.algorithm = info->name;
    gconv_bench_measure(bench, image, filters, &row);
    learn(walk, &row);
  }
}

/* ---- Telling ---- */

static void print_machine(const gconv_machine *machine) {
  printf("copies %.0f GB/s read + written, multiply-adds %.3g TFLOP/s, an empty launch %.1f us\n",
         machine->bytes_per_ms * 1e-6, machine->fma_per_ms * 2e-9, machine->launch_ms * 1e3);
}

static bool same_line(const gconv_tuning_row *a, const gconv_tuning_row *b) {
  return a->layer == b->layer && strcmp(a->algorithm, b->algorithm) == 0 && a->type == b->type &&
         a->channels == b->channels && a->samples == b->samples;
}

/* A line for each algorithm, type and image: the ratios behind the sizes of the filters. */
static void print_rows(const gconv_tuning *tuning) {
  printf("milliseconds measured / estimated, by the size of the filter:\n");
  for (size_t i = 0; i < tuning->count; i++) {
    const gconv_tuning_row *row = &tuning->rows[i];
    bool begun = false;
    for (size_t j = 0; j < i && !begun; j++)
      begun = same_line(&tuning->rows[j], row);
    if (begun)
      continue;
    if (row->layer)
      printf("%-13s layer, %s filters %9.0f outputs, by taps:", row->algorithm, row->channels == 1 ? "few" : "many",
             row->samples);
    else
      printf("%-13s %-3s x%d %9.0f samples:", row->algorithm, gconv_type_name(row->type), row->channels, row->samples);
    for (size_t j = i; j < tuning->count; j++)
      if (same_line(&tuning->rows[j], row))
        printf(" %.0f:%.2f", row->layer ? tuning->rows[j].taps : sqrt(tuning->rows[j].taps), tuning->rows[j].ratio);
    putchar('\n');
  }
}

static int print_tuning(const gconv_device *device) {
  const gconv_tuning *tuning = gconv_device_get_tuning(device);
  char *path = gconv_device_tuning_path(device);
  const gconv_device_info *info = gconv_device_get_info(device);
  printf("%s (%s): %s%s\n", info->name, info->description,
         tuning ? "tuned by "
         : path ? "not tuned; gconv tune would store it in "
                : "not tuned; nothing is stored, as GCONV_CACHE is empty or HOME is not set",
         path ? path : "");
  if (tuning) {
    print_machine(&tuning->machine);
    print_rows(tuning);
  }
  free(path);
  return GCONV_EXIT_OK;
}

/* ---- The work ---- */

/* Whether the file of the device can be written, found out before all the work: by writing what is in force, or, where
 * that is nothing, what is known of the machine. Then estimates are made to be for this machine, and unchanged. */
static gconv_status prepare(gconv_bench *bench) {
  gconv_tuning bare = {.machine = bench->machine};
  gconv_status status = GCONV_OK;
  if (!gconv_device_get_tuning(bench->device))
    status = gconv_device_set_tuning(bench->device, &bare);
  if (status == GCONV_OK)
    status = gconv_device_remember_tuning(bench->device);
  return status == GCONV_OK ? gconv_device_set_tuning(bench->device, &bare) : status;
}

static gconv_status measure_all(gconv_bench *bench, tuning_walk *walk, bool quick) {
  gconv_status status = prepare(bench);
  if (status != GCONV_OK)
    return status;
  gconv_bench_walk(bench, visit, walk);
  gconv_tune_layers(bench, quick, learn_layer, show_layer, walk);
  if (walk->progress)
    gconv_progress_hide();
  walk->tuning.machine = bench->machine;
  status = gconv_device_set_tuning(bench->device, &walk->tuning);
  return status == GCONV_OK ? gconv_device_remember_tuning(bench->device) : status;
}

static int tune(gconv_bench *bench, const tune_settings *settings, gconv_bench_settings *grid) {
  tuning_walk walk = {.progress = isatty(STDERR_FILENO)};
  walk.failed = !fill_grid(settings, strcmp(bench->type_name, "cpu") == 0, grid);
  gconv_status status = measure_all(bench, &walk, settings->quick);
  if (status != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  else
    print_tuning(bench->device);
  gconv_tuning_free(&walk.tuning);
  gconv_texts_free(&grid->filters);
  return status == GCONV_OK && !walk.failed && !bench->failed ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
}

static int forget(gconv_device *device) {
  gconv_status status = gconv_device_set_tuning(device, NULL);
  if (status == GCONV_OK)
    status = gconv_device_remember_tuning(device);
  if (status != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  return status == GCONV_OK ? GCONV_EXIT_OK : GCONV_EXIT_FAILED;
}

static int start(const tune_settings *settings) {
  gconv_bench_settings grid = {.plot_kind = -1};
  gconv_bench bench = {.settings = &grid, .unchecked = true};
  int exit = GCONV_EXIT_FAILED;
  if (gconv_bench_open(&bench, settings->device, settings->threads)) {
    if (settings->forget)
      exit = forget(bench.device);
    else if (settings->show)
      exit = print_tuning(bench.device);
    else if (gconv_bench_measure_machine(&bench))
      exit = tune(&bench, settings, &grid);
  }
  gconv_bench_close(&bench);
  return exit;
}

static int run(const gconv_command *self, int count, char *const *words) {
  tune_settings settings = {.device = NULL};
  gconv_texts operands = {0};
  int status;
  if (!gconv_command_parse(self, count, words, &settings, &operands, &status))
    return status;
  status = gconv_command_refuse(self, &operands);
  if (status == GCONV_EXIT_OK && settings.show && settings.forget) {
    gconv_say("--show and --forget exclude each other");
    status = GCONV_EXIT_USAGE;
  }
  if (status == GCONV_EXIT_OK)
    status = start(&settings);
  gconv_texts_free(&operands);
  return status;
}

const gconv_command gconv_command_tune = {
    .name = "tune",
    .synopsis = "tune [OPTION...]",
    .help = "measure this machine, and remember it for the choices of auto",
    .details =
        "Measures copies, multiply-adds, launches, and each algorithm on images, layers and filters of several sizes,\n"
        "in a minute or so. auto multiplies its estimates by the ratios found, as --explain tells. The file is in\n"
        "$GCONV_CACHE, else in gconv below $XDG_CACHE_HOME, else in .cache/gconv below $HOME; another device, driver\n"
        "or version of gconv makes it void. Of the CPU there is one for each number of threads: images of a folder are\n"
        "filtered by one each, which --threads 1 measures.\n",
    .options = options,
    .run = run,
};
