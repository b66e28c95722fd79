/* SPDX-License-Identifier: MIT */
/* gconv tune: the layers that it measures. */
#include "cli/tune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Outputs of a layer, and how many filters they are of: few or many. */
static const int32_t outputs[] = {1 << 16, 1 << 20, 1 << 24}, filters[] = {16, 64};

/* Filters of C x R x R: first layers, with their few channels, and later ones. */
static const struct { int32_t channels, size; } shapes[] = {{3, 3}, {3, 7}, {64, 3}, {256, 3}};

enum { RUNS = 7, OUTPUTS = 3, FILTERS = 2, SHAPES = 4 };

/* Inputs that take longer to make than to convolve are left out. */
static const double MOST_INPUT = 24e6;

/* Measured over estimated; 0 where the algorithm cannot do it. */
static double measure(gconv_bench *bench, const gconv_bench_layer *data, const char *algorithm) {
  gconv_layer layer = {.bank = &data->bank, .groups = 1};
  gconv_network_options options = {.algorithm = algorithm, .executions = 1000000};
  gconv_network *network = NULL;
  double times[RUNS], ratio = 0;
  if (gconv_network_create(bench->device, &data->in, &layer, 1, &options, &network) != GCONV_OK)
    return 0;
  double estimate = gconv_network_get_info(network, 0)->estimate_ms;
  int runs = gconv_bench_affordable_runs(estimate, RUNS);
  if (estimate > 0 && gconv_network_measure(network, &data->in, NULL, runs, times) == GCONV_OK)
    ratio = gconv_bench_median(times, runs) / estimate;
  gconv_network_free(network);
  return ratio;
}

static void measure_shape(gconv_bench *bench, const gconv_bench_layer *data, gconv_tuning_row row,
                          void (*learn)(const gconv_tuning_row *row, void *user), void *user) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)); i++) {
    if (strcmp(info->device, bench->type_name) != 0 || strcmp(info->name, "reference") == 0)
      continue;
    double ratio = measure(bench, data, info->name);
    row.algorithm = info->name;
    row.ratio = round(1e3 * fmin(fmax(ratio, 0.01), 100)) / 1e3; /* as it is read back */
    if (ratio > 0)
      learn(&row, user);
  }
}

void gconv_tune_layers(gconv_bench *bench, bool quick, void (*learn)(const gconv_tuning_row *row, void *user),
                       void (*show)(const char *text, void *user), void *user) {
  int sizes = quick ? 1 : strcmp(bench->type_name, "cpu") == 0 ? 2 : OUTPUTS;
  for (int i = 0; i < sizes * FILTERS * SHAPES; i++) {
    int32_t count = filters[i / SHAPES % FILTERS], all = outputs[i / SHAPES / FILTERS];
    int32_t channels = shapes[i % SHAPES].channels, size = shapes[i % SHAPES].size;
    int32_t side = (int32_t)lround(sqrt((double)all / count));
    if ((double)channels * side * side > MOST_INPUT || (quick && channels == 256))
      continue;
    char text[96];
    snprintf(text, sizeof text, "%d filters of %d x %d x %d on %d x %d", count, channels, size, size, side, side);
    show(text, user);
    gconv_bench_layer data = {0};
    gconv_tuning_row row = {.type = GCONV_F32, .channels = gconv_tuning_layer_class(count), .samples = all, .layer = true};
    row.taps = (double)channels * size * size;
    const gconv_bench_image image = {side, side, channels, true};
    if (gconv_bench_make_layer(&image, 1, count, size, &data) == GCONV_OK)
      measure_shape(bench, &data, row, learn, user);
    gconv_bench_free_layer(&data);
  }
}
