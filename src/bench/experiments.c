/* SPDX-License-Identifier: MIT */
/*
 * The experiments. Most are grids of layers. Each layer is computed by every algorithm, and some of its outputs are compared
 * with float64. Others have files of their own: backprop.c, rbf.c, steps.c, transfers.c, windows.c.
 */
#include "base/memory.h"
#include "bench/settings.h"

#include <string.h>

/* The x axis of a plot. Algorithms are the lines of a plot; other differences make several plots. */
typedef enum axis { OVER_BATCH, OVER_SIZE, OVER_WORKSPACE } axis;

enum { MOST_IMAGES = 2, MOST_NUMBERS = 12 };

/* Arrays that are not full end with zeros. */
typedef struct experiment {
  const char *name;
  int drawn; /* panels that --plot draws of profiles, in place of times; counters are then read as with --profile */
  axis axis;
  gconv_bench_image images[MOST_IMAGES];
  int32_t filters[MOST_NUMBERS], sizes[MOST_NUMBERS], batches[MOST_NUMBERS];
  int32_t workspaces[MOST_NUMBERS]; /* MiB; none: the default */

  gconv_status (*measure_layers)(gconv_bench *bench); /* layers that another file measures; NULL: the numbers above */

  /* Only of experiments with a file of their own: */
  gconv_bench_measure_size *measure; /* called for each size, or once with 0 if there are no sizes */
  bool latencies;                    /* rows have latencies of windows */
  bool cores;                        /* the experiment also measures the CPU: bench->one and bench->all */
  const char *left_out;              /* a sentence about the methods that are left out without a GPU */
  const char *items;                 /* the things it counts, such as "cases" */
  const char *axes;                  /* commands of gnuplot; NULL: it has no plot */
  const char *kind;                  /* what a row computes; NULL: "net" */
  const char *base;                  /* the method that speed-ups are relative to; NULL: "one-core" */
  const char *unprofiled;            /* what it measures that --profile cannot count; NULL: it can */
} experiment;

#define NEED_A_GPU " need a GPU, and are left out on the CPU"
#define LAYERS(title)                                                                                                       \
  .name = title, .measure_layers = gconv_bench_convolution,                                                                 \
  .left_out = "the kernels of the thesis and their launches" NEED_A_GPU
#define WINDOWS(title, from, commands)                                                                                      \
  .name = title, .measure = gconv_bench_windows, .cores = true, .latencies = true,                                          \
  .left_out = "windows on CUDA" NEED_A_GPU, .items = "samples", .base = from, .axes = commands
#define NETS(title, commands)                                                                                               \
  .name = title, .measure = gconv_bench_backprop, .cores = true,                                                            \
  .left_out = "the kernels of the theses and the trainer on CUDA" NEED_A_GPU, .items = "cases", .axes = commands
#define ALONG_LENGTHS "set xlabel 'samples of a window'\n"
#define SAMPLES_A_SECOND "set ylabel 'samples a second'\n"
#define NUMBERS_OF_CASES 1000, 2000, 4000, 8000, 16000, 30000
#define ALONG_CASES "set xlabel 'cases'\nset logscale xy\n"
#define ALONG_PARAMETERS                                                                                                    \
  "set xlabel 'parameters of the net'\nset logscale xy\nset xtics ('2-511-2' 2557, '64-63-26' 5759, '120-120-120' 29040, "  \
  "'468-468-2' 220430)\n"
#define PARTS "parts of epochs: backprop has the counters of whole ones"
#define RUNS "whole runs: backprop has the counters of epochs"
#define SHARES ALONG_PARAMETERS "set ylabel '% of the time of an epoch'\nset yrange [0:100]\nunset logscale y\n"
/* clang-format off */
static const experiment experiments[] = {
    {.name = "batch",
     .axis = OVER_BATCH,
     .images = {{128, 128, 3, true}, {256, 256, 3, true}},
     .filters = {8, 16, 32, 64},
     .sizes = {3, 8},
     .batches = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
    {.name = "algorithms",
     .axis = OVER_BATCH,
     .images = {{128, 128, 3, true}},
     .filters = {128},
     .sizes = {8},
     .batches = {1, 4, 16, 64, 256}},
    {.name = "sizes",
     .axis = OVER_SIZE,
     .images = {{256, 256, 3, true}},
     .filters = {32},
     .sizes = {3, 4, 5, 7, 8, 9, 11, 13, 16, 20, 25, 32},
     .batches = {10}},
    {.name = "chunks",
     .axis = OVER_WORKSPACE,
     .images = {{128, 128, 3, true}},
     .filters = {128},
     .sizes = {8},
     .batches = {256},
     .workspaces = {4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}},
    {LAYERS("figure-5.1a")},
    {LAYERS("figure-5.1b")},
    {LAYERS("figure-5.2")},
    {LAYERS("figure-5.3a")},
    {LAYERS("figure-5.3b")},
    {LAYERS("figure-5.4a")},
    {LAYERS("figure-5.4b")},
    {LAYERS("figure-5.5")},
    {LAYERS("figure-5.6")},
    {LAYERS("figure-5.7")},
    {LAYERS("figure-5.8"), .drawn = GCONV_DRAW_BUSY | GCONV_DRAW_INSTRUCTIONS | GCONV_DRAW_WAITS},
    {LAYERS("figure-5.9"), .drawn = GCONV_DRAW_OCCUPANCY},
    {LAYERS("figure-5.10"), .drawn = GCONV_DRAW_BYTES},
    {LAYERS("layer-steps")},
    {LAYERS("layouts")},
    {NETS("backprop", ALONG_PARAMETERS "set ylabel 'ms an epoch'\n"), .sizes = {15360}},
    {NETS("mlp-5.2", SHARES), .sizes = {15360}, .base = "", .unprofiled = PARTS},
    {NETS("mlp-5.3", SHARES), .sizes = {15360}, .base = "", .unprofiled = PARTS},
    {NETS("mlp-5.5", ALONG_PARAMETERS "set ylabel 'ms of 1000 epochs'\n"), .sizes = {15360}, .unprofiled = RUNS},
    {NETS("mlp-5.6", ALONG_PARAMETERS "set ylabel 'times as fast as one core'\n"), .sizes = {15360}, .unprofiled = RUNS},
    {NETS("mlp-5.7", "set xlabel 'neurons of input and hidden layer'\nset ylabel 'times as fast as one core'\n"
                     "set logscale y\n"),
     .sizes = {15360}},
    {NETS("mlp-16", ALONG_CASES "set ylabel 'times as fast'\n"), .sizes = {NUMBERS_OF_CASES}},
    {NETS("mlp-17", ALONG_CASES "set ylabel 'ms an epoch'\n"), .sizes = {NUMBERS_OF_CASES}},
    {.name = "rbf",
     .measure = gconv_bench_rbf,
     .left_out = "the layouts of memory, gconv's own kernel, and extrema on CUDA" NEED_A_GPU,
     .sizes = {4096, 16384, 65536},
     .items = "numbers",
     .axes = "set xlabel 'cases'\nset ylabel 'billions a second'\nset logscale xy\n",
     .kind = "result"},
    {.name = "steps", .measure = gconv_bench_steps, .left_out = "steps that the CPU has no kernel for are left out"},
    {.name = "transfers",
     .measure = gconv_bench_transfers,
     .left_out = "copies to a GPU and back" NEED_A_GPU,
     .sizes = {1, 4, 16, 64, 256},
     .items = "GB",
     .kind = "part",
     .base = "pageable",
     .unprofiled = "copies, which no multiprocessor does"},
    {WINDOWS("windows", NULL, ALONG_LENGTHS "set logscale y\n" SAMPLES_A_SECOND), .sizes = {50, 100, 150, 200, 300, 400}},
    {WINDOWS("windows-1a", NULL, "set xlabel 'windows of a launch'\nset logscale xy\n" SAMPLES_A_SECOND),
     .sizes = {100, 200, 400}},
    {WINDOWS("windows-1b", NULL, ALONG_LENGTHS "set logscale y\n" SAMPLES_A_SECOND),
     .sizes = {50, 64, 80, 100, 128, 150, 200, 256, 300, 350, 400}},
    {WINDOWS("windows-2a", "all-cores", ALONG_LENGTHS "set ylabel 'times as fast as all cores'\n"),
     .sizes = {50, 100, 150, 200, 300, 400}},
    {WINDOWS("windows-2b", NULL, ALONG_LENGTHS "set logscale y\n" SAMPLES_A_SECOND), .sizes = {50, 100, 150, 200, 300, 400}},
};
/* clang-format on */

/* ---- The grid ---- */

/* Names a row: "10 x 3x128x128, 8 filters 3x3" without the number of the x axis, which goes to row->filter. */
static void name_row(axis along, gconv_bench_row *row) {
  static const char *const titles[] = {"batch", "filter", "MiB"}; /* by axis */
  const gconv_bench_image *image = &row->image;
  size_t used = 0, size = sizeof row->group;
  row->place = along == OVER_BATCH ? row->images : along == OVER_SIZE ? row->rows : row->workspace_mib;
  snprintf(row->filter, sizeof row->filter, "%s %.0f", titles[along], row->place);
  if (along != OVER_BATCH)
    used = (size_t)snprintf(row->group, size, "%d x ", row->images);
  used += (size_t)snprintf(row->group + used, size - used, "%dx%dx%d, %d filters", image->channels, image->height,
                           image->width, row->filters);
  if (along != OVER_SIZE)
    snprintf(row->group + used, size - used, " %dx%d", row->rows, row->columns);
}

static void say_what_is_left_out(const gconv_bench *bench, const experiment *chosen) {
  if (chosen->left_out && strcmp(bench->type_name, "cuda") != 0)
    gconv_bench_say(bench, "note: %s (gconv devices lists GPUs)", chosen->left_out);
}

static gconv_status measure_shape(gconv_bench *bench, const experiment *chosen, gconv_bench_row *shape) {
  GCONV_ENDED_BY(gconv_bench_free_layer) gconv_bench_layer data = {0};
  gconv_status status = gconv_bench_make_layer(&shape->image, shape->images, shape->filters, shape->rows, &data);
  int32_t count;
  const char *algorithm;
  gconv_bench_numbers(NULL, chosen->workspaces, MOST_NUMBERS, &count);
  for (int32_t i = 0; status == GCONV_OK && i < (count > 0 ? count : 1); i++) {
    shape->workspace_mib = chosen->workspaces[i];
    name_row(chosen->axis, shape);
    for (size_t k = 0; (algorithm = gconv_bench_algorithm_at(bench, true, k)); k++) {
      gconv_bench_row row = *shape;
      row.algorithm = algorithm;
      gconv_bench_measure_layer(bench, &data, GCONV_LAYER_VALID, &row);
      gconv_bench_keep(bench, &row);
      gconv_bench_print_row(bench);
    }
    if (gconv_bench_measure_other(bench, &data, GCONV_LAYER_VALID, shape))
      gconv_bench_print_row(bench);
  }
  return status;
}

/* Measures the layers of an image. */
static gconv_status measure_image(gconv_bench *bench, const experiment *chosen, const gconv_bench_image *image) {
  const gconv_bench_grid *grid = bench->grid;
  int32_t size_count, filter_count, batch_count;
  const int32_t *sizes = gconv_bench_numbers(&grid->sizes, chosen->sizes, MOST_NUMBERS, &size_count);
  const int32_t *filters = gconv_bench_numbers(&grid->layer_filters, chosen->filters, MOST_NUMBERS, &filter_count);
  const int32_t *batches = gconv_bench_numbers(&grid->batches, chosen->batches, MOST_NUMBERS, &batch_count);
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; status == GCONV_OK && i < filter_count * size_count * batch_count; i++) {
    const int32_t size = sizes[i / batch_count % size_count];
    gconv_bench_row shape = {.layer = true,
                             .image = {image->width, image->height, image->channels, true},
                             .type = GCONV_F32,
                             .images = batches[i % batch_count],
                             .filters = filters[i / batch_count / size_count],
                             .rows = size,
                             .columns = size};
    status = measure_shape(bench, chosen, &shape);
  }
  return status;
}

const char *gconv_bench_experiment_at(size_t index) {
  return index < sizeof experiments / sizeof *experiments ? experiments[index].name : NULL;
}

static const experiment *find_experiment(const char *name) {
  for (size_t i = 0; i < sizeof experiments / sizeof *experiments; i++)
    if (strcmp(experiments[i].name, name) == 0)
      return &experiments[i];
  return NULL;
}

/* Returns the commands of gnuplot. Batches of more than 20 images get a logarithmic x axis. */
static const char *choose_axes(const experiment *chosen) {
#define COMMON "set autoscale xfix\nset ylabel 'ms'\nset format y '%g'\n"
  static const char *const axes[] = {
      COMMON "set xlabel 'images in the batch'\nset logscale y\n",
      COMMON "set xlabel 'size of the filters'\nset logscale xy\nset xtics (3,4,5,7,9,11,16,25,32,64)\n",
      COMMON "set xlabel 'MiB of workspace'\nset logscale xy 2\n",
      COMMON "set xlabel 'images in the batch'\nset logscale y\nset logscale x 2\n",
  };
  int32_t count;
  gconv_bench_numbers(NULL, chosen->batches, MOST_NUMBERS, &count);
  return axes[chosen->axis == OVER_BATCH && chosen->batches[count - 1] > 20 ? 3 : (int)chosen->axis];
}

void gconv_bench_take_words(gconv_bench *bench) {
  const experiment *chosen = bench->settings->experiment ? find_experiment(bench->settings->experiment) : NULL;
  bench->items = chosen ? chosen->items : NULL;
  bench->kind = chosen && chosen->kind ? chosen->kind : "net";
  bench->latencies = chosen && chosen->latencies;
  bench->experiment = bench->settings->experiment;
  bench->blocks = bench->settings->blocks;
  bench->block_count = bench->settings->block_count;
  bench->grids = &bench->settings->grids;
  bench->base = chosen && chosen->base ? chosen->base : "one-core";
}

bool gconv_bench_is_of_counters(const char *name) {
  const experiment *chosen = name ? find_experiment(name) : NULL;
  return chosen && chosen->drawn;
}

gconv_status gconv_bench_check_experiment(const gconv_bench_settings *settings) {
  const experiment *chosen = settings->experiment ? find_experiment(settings->experiment) : NULL;
  const bool layers = settings->grid.batches.count > 0 || settings->grid.layer_filters.count > 0 || settings->against;
  if (layers && (!chosen || chosen->measure))
    return gconv_fail(GCONV_BAD_ARGUMENT, "--batches, --filters and --against are for experiments with layers: --experiment "
                                          "batch, for example");
  const bool launches =
      settings->block_count > 0 || settings->grids.count > 0 || settings->sweep_blocks || settings->sweep_grids;
  if (chosen && launches && !chosen->measure_layers)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "--block, --grid and --sweep are for images, and for experiments with the kernels of "
                      "a thesis: --experiment figure-5.2, for example");
  for (int i = 0; (!chosen || !chosen->items) && i < settings->grid.sizes.count; i++)
    if (settings->grid.sizes.items[i] > GCONV_BENCH_MOST_SIZE)
      return gconv_fail(GCONV_BAD_ARGUMENT, "--sizes: these are sizes from 1 to %d", GCONV_BENCH_MOST_SIZE);
  for (int i = 0; chosen && i < settings->block_count; i++)
    if ((int64_t)settings->blocks[i].width * settings->blocks[i].height > 1024)
      return gconv_fail(GCONV_BAD_ARGUMENT, "--block: a block has at most 1024 threads");
  if (chosen && chosen->unprofiled && settings->profile)
    return gconv_fail(GCONV_BAD_ARGUMENT, "--profile: the experiment %s measures %s", chosen->name, chosen->unprofiled);
  if (chosen && chosen->measure && !chosen->axes && settings->plot)
    return gconv_fail(GCONV_BAD_ARGUMENT, "--plot: the experiment %s has no picture; --csv and --json have its figures",
                      chosen->name);
  if (!chosen || !chosen->measure || (settings->grid.image_count == 0 && settings->grid.algorithms.count == 0))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT,
                    "--experiment %s has problems and methods of its own: it takes no --image and no "
                    "--algorithm, but --sizes, --device, --threads, --runs, --csv, --json and --plot",
                    chosen->name);
}

static gconv_status measure_layers(gconv_bench *bench, const experiment *chosen) {
  const gconv_bench_grid *grid = bench->grid;
  gconv_status status = gconv_bench_open_other(bench);
  for (int i = 0; status == GCONV_OK && i < grid->image_count; i++)
    status = measure_image(bench, chosen, &grid->images[i]);
  for (int i = 0; status == GCONV_OK && grid->image_count == 0 && i < MOST_IMAGES && chosen->images[i].width > 0; i++)
    status = measure_image(bench, chosen, &chosen->images[i]);
  if (status == GCONV_OK)
    gconv_bench_report_overtaking(bench);
  return status;
}

static gconv_status measure_sizes(gconv_bench *bench, const experiment *chosen) {
  int32_t count;
  const int32_t *sizes = gconv_bench_numbers(&bench->grid->sizes, chosen->sizes, MOST_NUMBERS, &count);
  if (chosen->cores)
    GCONV_TRY(gconv_device_open("cpu", 1, &bench->one));
  if (chosen->cores && gconv_threads_allowed(bench->threads) > 1)
    GCONV_TRY(gconv_device_open("cpu", bench->threads, &bench->all));
  for (int32_t i = 0; i < (count > 0 ? count : 1); i++)
    GCONV_TRY(chosen->measure(bench, sizes[i]));
  return GCONV_OK;
}

gconv_status gconv_bench_experiment(gconv_bench *bench) {
  const gconv_bench_settings *settings = bench->settings;
  const experiment *chosen = find_experiment(settings->experiment);
  if (!chosen)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no experiment %s", settings->experiment);
  say_what_is_left_out(bench, chosen);
  gconv_status status = chosen->measure          ? measure_sizes(bench, chosen)
                        : chosen->measure_layers ? chosen->measure_layers(bench)
                                                 : measure_layers(bench, chosen);
  gconv_status printed = gconv_bench_print_end(bench);
  GCONV_THEN(status, printed);
  if (status != GCONV_OK || !settings->plot)
    return status;
  if (chosen->drawn)
    return gconv_bench_plot_profiles(bench, settings->plot, chosen->drawn);
  const char *axes = chosen->axes             ? chosen->axes
                     : chosen->measure_layers ? gconv_bench_convolution_axes(chosen->name)
                                              : choose_axes(chosen);
  return gconv_bench_draw(bench, axes, settings->plot, settings->profile);
}
