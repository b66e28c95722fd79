/* SPDX-License-Identifier: MIT */
/* Experiments that are known by name: grids of layers, each solved by every algorithm, with some outputs held to float64. */
#include "cli/bench_experiments.h"
#include "cli/command.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IMAGES = 2, MOST_NUMBERS = 12 };

/* Ended by zeroes, where they are not full. */
typedef struct experiment {
  const char *name;
  gconv_experiment_axis axis;
  gconv_bench_image images[MOST_IMAGES];
  int32_t filters[MOST_NUMBERS], sizes[MOST_NUMBERS], batches[MOST_NUMBERS];
  int32_t workspaces[MOST_NUMBERS]; /* MiB; none: the default */
} experiment;

static const experiment experiments[] = {
    {.name = "batch",
     .axis = GCONV_OVER_BATCH,
     .images = {{128, 128, 3, true}, {256, 256, 3, true}},
     .filters = {8, 16, 32, 64},
     .sizes = {3, 8},
     .batches = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
    {.name = "algorithms",
     .axis = GCONV_OVER_BATCH,
     .images = {{128, 128, 3, true}},
     .filters = {128},
     .sizes = {8},
     .batches = {1, 4, 16, 64, 256}},
    {.name = "sizes",
     .axis = GCONV_OVER_SIZE,
     .images = {{256, 256, 3, true}},
     .filters = {32},
     .sizes = {3, 4, 5, 7, 8, 9, 11, 13, 16, 20, 25, 32},
     .batches = {10}},
    {.name = "chunks",
     .axis = GCONV_OVER_WORKSPACE,
     .images = {{128, 128, 3, true}},
     .filters = {128},
     .sizes = {8},
     .batches = {256},
     .workspaces = {4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}},
};

/* Larger outputs stay on the device, unseen. */
static const double CHECKED_BYTES = 16 << 20;
enum { CHECKED_PLACES = 200 };

static int32_t count_numbers(const int32_t *numbers) {
  int32_t count = 0;
  while (count < MOST_NUMBERS && numbers[count] > 0)
    count++;
  return count;
}

/* ---- Results ---- */

/* The weights are planes as the images are: plane k * C + c. */
/* The sum at (n, k, p, q) in float64; *products and *weights become sums of magnitudes. */
static double sum_at(const gconv_bench_layer *data, const int32_t at[4], double *products, double *weights) {
  const gconv_image *in = &data->in;
  const size_t width = (size_t)in->width, channels = (size_t)in->channels, size = (size_t)data->bank.rows;
  const float *weight = data->bank.weights + (size_t)at[1] * channels * size * size, *samples = in->data;
  double sum = 0;
  *products = *weights = 0;
  for (size_t c = 0; c < channels; c++)
    for (size_t r = 0; r < size; r++)
      for (size_t s = 0; s < size; s++, weight++) {
        size_t row = ((size_t)at[0] * channels + c) * (size_t)in->height + (size_t)at[2] + r;
        double product = (double)*weight * (double)samples[row * width + (size_t)at[3] + s];
        sum += product;
        *products += fabs(product);
        *weights += fabs((double)*weight);
      }
  return sum;
}

/* Places at odd distances, with the first and the last. Samples are below 1. */
static void check_outputs(const gconv_bench_layer *data, const gconv_layer_info *info, const gconv_image *out,
                          gconv_experiment_row *row) {
  size_t pixels = (size_t)out->height * (size_t)out->width;
  size_t count = pixels * (size_t)out->channels * (size_t)out->frames;
  for (size_t i = 0; i < CHECKED_PLACES; i++) {
    size_t place = (size_t)((double)(count - 1) * (double)i / (CHECKED_PLACES - 1));
    const int32_t at[4] = {
        (int32_t)(place / pixels / (size_t)out->channels), (int32_t)(place / pixels % (size_t)out->channels),
        (int32_t)(place / (size_t)out->width % (size_t)out->height), (int32_t)(place % (size_t)out->width)};
    double products, weights, sum = sum_at(data, at, &products, &weights);
    double error = fabs((double)((const float *)out->data)[place] - sum);
    double allowed = info->error_bound * (info->bound_of_largest ? weights : products);
    if (i == 0 || !(error * row->allowed <= row->error * allowed)) {
      row->error = isnan(error) ? HUGE_VAL : error;
      row->allowed = allowed;
    }
  }
  row->checked = true;
}

/* ---- One row ---- */

static gconv_status measure_network(gconv_bench *bench, gconv_network *network, const gconv_bench_layer *data,
                                    gconv_experiment_row *row) {
  const gconv_layer_info *info = gconv_network_get_info(network, 0);
  row->chosen = info->algorithm;
  row->flop = info->flop;
  row->estimate_ms = info->estimate_ms;
  row->chunk = info->batch;
  row->workspace_used = (double)info->workspace_bytes;
  if (row->workspace_mib > 0 && info->workspace_bytes == 0)
    return gconv_set_error(GCONV_UNSUPPORTED, "it takes no workspace");
  int runs = gconv_bench_affordable_runs(info->estimate_ms, bench->settings->runs);
  double *times = calloc((size_t)runs, sizeof *times);
  double bytes = (double)info->images * info->filters * info->out_height * info->out_width * sizeof(float);
  gconv_image out = {0};
  gconv_status status = times ? gconv_network_measure(network, &data->in, bytes <= CHECKED_BYTES ? &out : NULL, runs, times)
                              : gconv_set_error(GCONV_NO_MEMORY, "out of memory");
  if (status == GCONV_OK)
    row->ms = gconv_bench_median(times, runs);
  if (status == GCONV_OK && out.data) {
    check_outputs(data, info, &out, row);
    if (row->error > row->allowed)
      status = gconv_set_error(GCONV_MISMATCH, "the result is further from float64 than its bound allows");
  }
  gconv_image_free(&out);
  free(times);
  return status;
}

static void measure_row(gconv_bench *bench, const gconv_bench_layer *data, gconv_experiment_row *row) {
  gconv_layer layer = {.bank = &data->bank, .padding = GCONV_LAYER_VALID, .groups = 1};
  gconv_network_options options = {.algorithm = row->algorithm,
                                   .executions = 1000000, /* what is measured is speed, not the start of libraries */
                                   .workspace_bytes = (size_t)row->workspace_mib << 20};
  gconv_network *network = NULL;
  gconv_status status = gconv_network_create(bench->device, &data->in, &layer, 1, &options, &network);
  if (status == GCONV_OK)
    status = measure_network(bench, network, data, row);
  gconv_network_free(network);
  if (status == GCONV_OK)
    return;
  snprintf(row->obstacle, sizeof row->obstacle, "%s", gconv_bench_obstacle(gconv_last_error()));
  if (status != GCONV_UNSUPPORTED) {
    gconv_say("%s, %d images, %d filters of %d x %d: %s", row->algorithm, row->images, row->filters, row->size, row->size,
              gconv_last_error());
    bench->failed = true;
  }
}

/* ---- The grid ---- */

static void add_row(gconv_experiment_run *run, const gconv_bench_layer *data, const gconv_experiment_row *shape,
                    const char *algorithm) {
  gconv_experiment_row *rows = gconv_grown(run->rows, run->count, sizeof *rows);
  if (!rows) {
    gconv_say("out of memory");
    run->bench->failed = true;
    return;
  }
  run->rows = rows;
  rows[run->count] = *shape;
  rows[run->count].algorithm = algorithm;
  measure_row(run->bench, data, &rows[run->count]);
  run->count++;
  gconv_experiment_print_row(run);
}

static void measure_algorithms(gconv_experiment_run *run, const gconv_bench_layer *data, const gconv_experiment_row *shape) {
  const gconv_texts *names = &run->bench->settings->algorithms;
  const gconv_algorithm_info *info;
  for (size_t i = 0; i < names->count; i++)
    add_row(run, data, shape, names->items[i]);
  for (size_t i = 0; names->count == 0 && (info = gconv_layer_algorithm_at(i)); i++)
    if (strcmp(info->device, run->bench->type_name) == 0 && strcmp(info->name, "reference") != 0)
      add_row(run, data, shape, info->name);
}

static gconv_status measure_shape(gconv_experiment_run *run, const experiment *chosen, gconv_experiment_row *shape) {
  gconv_bench_layer data = {0};
  const gconv_bench_image image = {shape->width, shape->height, shape->channels, true};
  gconv_status status = gconv_bench_make_layer(&image, shape->images, shape->filters, shape->size, &data);
  int32_t count = count_numbers(chosen->workspaces);
  for (int32_t i = 0; status == GCONV_OK && i < (count > 0 ? count : 1); i++) {
    shape->workspace_mib = chosen->workspaces[i];
    measure_algorithms(run, &data, shape);
  }
  gconv_bench_free_layer(&data);
  return status;
}

static gconv_status measure_image(gconv_experiment_run *run, const experiment *chosen, const gconv_bench_image *image) {
  const gconv_bench_settings *settings = run->bench->settings;
  const int32_t *sizes = settings->size_count > 0 ? settings->sizes : chosen->sizes;
  const int32_t size_count = settings->size_count > 0 ? settings->size_count : count_numbers(chosen->sizes);
  const int32_t filter_count = count_numbers(chosen->filters), batch_count = count_numbers(chosen->batches);
  gconv_status status = GCONV_OK;
  for (int32_t i = 0; status == GCONV_OK && i < filter_count * size_count * batch_count; i++) {
    gconv_experiment_row shape = {.images = chosen->batches[i % batch_count],
                                  .channels = image->channels,
                                  .height = image->height,
                                  .width = image->width,
                                  .filters = chosen->filters[i / batch_count / size_count],
                                  .size = sizes[i / batch_count % size_count]};
    status = measure_shape(run, chosen, &shape);
  }
  return status;
}

static int run_experiment(gconv_bench *bench, const experiment *chosen) {
  const gconv_bench_settings *settings = bench->settings;
  gconv_experiment_run run = {.bench = bench, .name = chosen->name, .axis = chosen->axis};
  gconv_status status = GCONV_OK;
  gconv_experiment_print_head(&run);
  for (int i = 0; status == GCONV_OK && i < settings->image_count; i++)
    status = measure_image(&run, chosen, &settings->images[i]);
  for (int i = 0; status == GCONV_OK && settings->image_count == 0 && i < MOST_IMAGES && chosen->images[i].width > 0; i++)
    status = measure_image(&run, chosen, &chosen->images[i]);
  if (status != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  gconv_experiment_print_end(&run);
  int plotted = settings->plot ? gconv_experiment_plot(&run) : GCONV_EXIT_OK;
  free(run.rows);
  return status != GCONV_OK || bench->failed ? GCONV_EXIT_FAILED : plotted;
}

bool gconv_bench_find_experiment(const char *name, int *index) {
  const char *names[sizeof experiments / sizeof *experiments + 1] = {NULL};
  gconv_message message;
  for (size_t i = 0; i < sizeof experiments / sizeof *experiments; i++)
    names[i] = experiments[i].name;
  if (gconv_option_find(names, name, index, &message) == GCONV_OK)
    return true;
  gconv_say("--experiment %s: %s", name, message.text);
  return false;
}

int gconv_bench_experiment(gconv_bench *bench, int index) {
  return run_experiment(bench, &experiments[index]);
}
