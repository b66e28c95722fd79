/* SPDX-License-Identifier: MIT */
/* Algorithms against each other and against the machine: data in the memory of the device, medians, no files. */
#include "cli/command.h"
#include "cli/numbers.h"
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SIZES = 64 };

typedef struct bench_settings {
  gconv_texts filters, algorithms;
  int32_t width, height, channels;
  int32_t sizes[MOST_SIZES];
  int size_count;
  int type, runs, threads;
  bool planar, csv, verify;
  const char *device;
} bench_settings;

/* ---- Options ---- */

static const char *const type_names[] = {"u8", "u16", "f32", NULL}; /* in the order of gconv_type */

static gconv_status parse_image(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  bench_settings *settings = memory;
  char numbers[64];
  snprintf(numbers, sizeof numbers, "%s", value);
  for (char *at = numbers; *at; at++)
    *at = *at == 'x' ? ',' : *at;
  int32_t parts[3] = {0, 0, 1};
  int count = gconv_parse_integers(numbers, 3, 1, INT32_MAX, parts);
  if (count < 2)
    return gconv_complain(message, GCONV_BAD_ARGUMENT,
                          "this takes WIDTHxHEIGHT or WIDTHxHEIGHTxCHANNELS, such as 3840x2160x3");
  settings->width = parts[0];
  settings->height = parts[1];
  settings->channels = parts[2];
  return GCONV_OK;
}

static gconv_status parse_sizes(const gconv_option *option, const char *value, void *memory, gconv_message *message) {
  (void)option;
  bench_settings *settings = memory;
  settings->size_count = gconv_parse_integers(value, MOST_SIZES, 1, 4096, settings->sizes);
  if (settings->size_count == 0)
    return gconv_complain(message, GCONV_BAD_ARGUMENT, "this takes sizes from 1 to 4096 with commas between: 3,5,7");
  return GCONV_OK;
}

static const gconv_option options[] = {
    {.name = "image",
     .value = "WxH[xC]",
     .help = "the image, of random samples; default: 3840x2160x3",
     .parse = parse_image},
    {.name = "planar",
     .help = "its channels as planes; default: interleaved pixels",
     .parse = gconv_option_flag,
     .field = offsetof(bench_settings, planar)},
    {.name = "type",
     .value = "TYPE",
     .help = "samples of input and output: u8 (default), u16 or f32",
     .parse = gconv_option_choice,
     .field = offsetof(bench_settings, type),
     .choices = type_names},
    {.name = "sizes",
     .value = "N,N...",
     .help = "square filters of random taps; default: 3,5,7,9,11,15,31, unless there are filters",
     .parse = parse_sizes},
    {.letter = 'f',
     .name = "filter",
     .value = "FILTER",
     .help = "a filter instead, as for the main job; may be repeated",
     .parse = gconv_option_texts,
     .field = offsetof(bench_settings, filters)},
    {.letter = 'a',
     .name = "algorithm",
     .value = "NAME",
     .help = "auto, or an algorithm of the device; may be repeated; default: all but reference",
     .parse = gconv_option_texts,
     .field = offsetof(bench_settings, algorithms)},
    {.letter = 'd',
     .name = "device",
     .value = "NAME",
     .help = "auto (default: a GPU if one can be used), cpu, cuda or cuda:N; without it, $GCONV_DEVICE counts",
     .parse = gconv_option_text,
     .field = offsetof(bench_settings, device)},
    {.name = "threads",
     .value = "N",
     .help = "threads on the CPU; default: one a processor",
     .parse = gconv_option_integer,
     .field = offsetof(bench_settings, threads),
     .least = 1,
     .most = 1024},
    {.name = "runs",
     .value = "N",
     .help = "runs, of which the median counts; default: 20",
     .parse = gconv_option_integer,
     .field = offsetof(bench_settings, runs),
     .least = 1,
     .most = 10000},
    {.name = "verify",
     .help = "hold one result of each to float64, too; slow for large filters",
     .parse = gconv_option_flag,
     .field = offsetof(bench_settings, verify)},
    {.name = "csv", .help = "rows with commas", .parse = gconv_option_flag, .field = offsetof(bench_settings, csv)},
    GCONV_OPTIONS_END,
};

/* ---- Inputs ---- */

/* The same numbers for every run of the program: a linear congruential generator (Numerical Recipes). */
static uint32_t next_random(uint32_t *state) {
  return *state = *state * 1664525u + 1013904223u;
}

static gconv_status make_image(const bench_settings *settings, gconv_image *image) {
  *image = (gconv_image){.type = (gconv_type)settings->type,
                         .frames = 1,
                         .height = settings->height,
                         .width = settings->width,
                         .channels = settings->channels,
                         .planar = settings->planar};
  gconv_status status = gconv_image_allocate(image);
  if (status != GCONV_OK)
    return status;
  uint32_t state = 1;
  size_t samples = (size_t)settings->height * (size_t)settings->width * (size_t)settings->channels;
  for (size_t i = 0; i < samples; i++) {
    uint32_t bits = next_random(&state);
    if (image->type == GCONV_U8)
      ((uint8_t *)image->data)[i] = (uint8_t)(bits >> 24);
    else if (image->type == GCONV_U16)
      ((uint16_t *)image->data)[i] = (uint16_t)(bits >> 16);
    else
      ((float *)image->data)[i] = (float)(bits >> 8) * 0x1p-24f;
  }
  return GCONV_OK;
}

/* A filter of random taps as an ImageMagick kernel, read as any other. */
static gconv_status read_random_filter(int32_t size, gconv_filters *filters) {
  size_t taps = (size_t)size * (size_t)size, bytes = 32 + 16 * taps;
  char *text = malloc(bytes);
  if (!text)
    return GCONV_NO_MEMORY;
  uint32_t state = (uint32_t)size;
  size_t used = (size_t)snprintf(text, bytes, "%dx%d+%d+%d:", size, size, size / 2, size / 2);
  for (size_t i = 0; i < taps; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%.6f", i ? "," : " ",
                             ((double)next_random(&state) * 0x1p-32 - 0.5) * 4 / (double)taps);
  gconv_status status = gconv_filters_read(text, NULL, filters);
  free(text);
  return status;
}

/* ---- Measuring ---- */

typedef struct bench_run {
  const bench_settings *settings;
  gconv_device *device;
  gconv_image image;
  double copy_gb_per_s; /* of a copy in the memory of the device, read + written */
  bool failed;
} bench_run;

static int compare_numbers(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *numbers, int count) {
  qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
  return numbers[count / 2];
}

static gconv_status measure_copy(bench_run *bench) {
  enum { RUNS = 9 };
  const size_t bytes = (size_t)1 << 28; /* several times the caches */
  double milliseconds[RUNS];
  gconv_status status = gconv_device_measure_copy(bench->device, bytes, RUNS, milliseconds);
  if (status == GCONV_OK)
    bench->copy_gb_per_s = 2e-6 * (double)bytes / median(milliseconds, RUNS);
  return status;
}

static void print_head(const bench_run *bench) {
  const gconv_device_info *info = gconv_device_get_info(bench->device);
  if (bench->settings->csv) {
    printf("device,algorithm,type,width,height,channels,filter,rows,columns,ms,gsample_per_s,gb_per_s,copy_gb_per_s,"
           "tflop_per_s\n");
    return;
  }
  printf("%s (%s), copy %.0f GB/s read + written\n", info->name, info->description, bench->copy_gb_per_s);
  printf("%d x %d x %d %s %s, median of %d runs\n", bench->settings->width, bench->settings->height,
         bench->settings->channels, type_names[bench->settings->type], bench->settings->planar ? "planes" : "interleaved",
         bench->settings->runs);
  printf("%-12s %-20s %9s %10s %8s %6s %9s\n", "algorithm", "filter", "ms", "Gsample/s", "GB/s", "copy", "TFLOP/s");
}

static void print_row(const bench_run *bench, const gconv_plan_info *info, const char *filter, double ms) {
  double samples = (double)info->out_height * info->out_width * info->out_channels * info->frames;
  double gb_per_s = info->bytes / ms * 1e-6, tflop_per_s = info->flop / ms * 1e-9;
  if (bench->settings->csv)
    printf("%s,%s,%s,%d,%d,%d,%s,%d,%d,%.6g,%.6g,%.6g,%.6g,%.6g\n", info->device, info->algorithm,
           type_names[bench->settings->type], info->width, info->height, info->channels, filter, info->rows, info->columns,
           ms, samples / ms * 1e-6, gb_per_s, bench->copy_gb_per_s, tflop_per_s);
  else
    printf("%-12s %-20.20s %9.4f %10.2f %8.1f %5.0f%% %9.3f\n", info->algorithm, filter, ms, samples / ms * 1e-6, gb_per_s,
           100 * gb_per_s / bench->copy_gb_per_s, tflop_per_s);
  fflush(stdout);
}

static gconv_status verify_once(const bench_run *bench, gconv_plan *plan) {
  gconv_image *outputs = calloc(gconv_plan_outputs(plan), sizeof *outputs);
  gconv_verification result;
  gconv_status status = outputs ? gconv_plan_execute(plan, &bench->image, outputs, NULL) : GCONV_NO_MEMORY;
  if (status == GCONV_OK)
    status = gconv_plan_verify(plan, &bench->image, outputs, -1, &result);
  for (size_t i = 0; outputs && i < gconv_plan_outputs(plan); i++)
    gconv_image_free(&outputs[i]);
  free(outputs);
  return status;
}

/* One row: an algorithm with a filter. What the algorithm cannot do is said, and is no failure. */
static void bench_one(bench_run *bench, const char *algorithm, const gconv_filters *filters, const char *name) {
  gconv_options convolution = gconv_options_default();
  convolution.algorithm = algorithm;
  convolution.combine = filters->count > 1 ? GCONV_COMBINE_MAGNITUDE : GCONV_COMBINE_NONE;
  gconv_plan *plan = NULL;
  gconv_status status = gconv_plan_create(bench->device, &bench->image, filters, &convolution, &plan);
  if (status == GCONV_UNSUPPORTED) {
    if (!bench->settings->csv)
      printf("%-12s %-20.20s %s\n", algorithm, name, gconv_last_error());
    return;
  }
  double *milliseconds = calloc((size_t)bench->settings->runs, sizeof *milliseconds);
  if (status == GCONV_OK && milliseconds)
    status = gconv_plan_measure(plan, &bench->image, bench->settings->runs, milliseconds);
  if (status == GCONV_OK && milliseconds)
    print_row(bench, gconv_plan_get_info(plan), name, median(milliseconds, bench->settings->runs));
  if (status == GCONV_OK && bench->settings->verify)
    status = verify_once(bench, plan);
  if (status != GCONV_OK || !milliseconds) {
    gconv_say("%s, %s: %s", algorithm, name, gconv_last_error());
    bench->failed = true;
  }
  free(milliseconds);
  gconv_plan_free(plan);
}

static void bench_filter(bench_run *bench, const gconv_filters *filters, const char *name) {
  const gconv_texts *names = &bench->settings->algorithms;
  for (size_t i = 0; i < names->count; i++)
    bench_one(bench, names->items[i], filters, name);
  if (names->count > 0)
    return;
  const char *device = gconv_device_get_info(bench->device)->name;
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = gconv_algorithm_at(i)); i++)
    if (strncmp(info->device, device, strlen(info->device)) == 0 && strcmp(info->name, "reference") != 0)
      bench_one(bench, info->name, filters, name);
}

static int bench_all(bench_run *bench) {
  const bench_settings *settings = bench->settings;
  print_head(bench);
  for (size_t i = 0; i < settings->filters.count; i++) {
    gconv_filters filters = {0};
    if (gconv_filters_read(settings->filters.items[i], NULL, &filters) != GCONV_OK) {
      gconv_say("%s", gconv_last_error());
      return GCONV_EXIT_USAGE;
    }
    bench_filter(bench, &filters, settings->filters.items[i]);
    gconv_filters_free(&filters);
  }
  for (int i = 0; i < settings->size_count; i++) {
    gconv_filters filters = {0};
    char name[32];
    snprintf(name, sizeof name, "random %dx%d", settings->sizes[i], settings->sizes[i]);
    if (read_random_filter(settings->sizes[i], &filters) != GCONV_OK) {
      gconv_say("%s: %s", name, gconv_last_error());
      return GCONV_EXIT_FAILED;
    }
    bench_filter(bench, &filters, name);
    gconv_filters_free(&filters);
  }
  return bench->failed ? GCONV_EXIT_FAILED : GCONV_EXIT_OK;
}

static int start(const bench_settings *settings) {
  bench_run bench = {.settings = settings};
  const char *device = settings->device ? settings->device : getenv("GCONV_DEVICE");
  int exit = GCONV_EXIT_FAILED;
  if (gconv_device_open(device && *device ? device : "auto", settings->threads, &bench.device) != GCONV_OK ||
      make_image(settings, &bench.image) != GCONV_OK || measure_copy(&bench) != GCONV_OK)
    gconv_say("%s", gconv_last_error());
  else
    exit = bench_all(&bench);
  gconv_image_free(&bench.image);
  gconv_device_close(bench.device);
  return exit;
}

static int run(const gconv_command *self, int count, char *const *words) {
  bench_settings settings = {.width = 3840, .height = 2160, .channels = 3, .runs = 20};
  gconv_texts operands = {0};
  int status;
  if (!gconv_command_parse(self, count, words, &settings, &operands, &status))
    return status;
  status = gconv_command_refuse(self, &operands);
  static const int32_t usual_sizes[] = {3, 5, 7, 9, 11, 15, 31};
  if (settings.size_count == 0 && settings.filters.count == 0) {
    settings.size_count = sizeof usual_sizes / sizeof usual_sizes[0];
    memcpy(settings.sizes, usual_sizes, sizeof usual_sizes);
  }
  if (status == GCONV_EXIT_OK)
    status = start(&settings);
  gconv_texts_free(&operands);
  gconv_texts_free(&settings.filters);
  gconv_texts_free(&settings.algorithms);
  return status;
}

const gconv_command gconv_command_bench = {
    .name = "bench",
    .synopsis = "bench [OPTION...]",
    .help = "how fast the algorithms are on this machine, by themselves",
    .details =
        "Times are of the convolution alone, on samples in the memory of the device, without files and transfers; on\n"
        "a GPU they are from events, and inputs are rotated past its caches. `copy` is the bandwidth used (input read\n"
        "once, output written once) as a part of that of a copy in the same run; TFLOP/s count the taps as they are\n"
        "written, whatever the algorithm does with them. Several filters in one FILTER are combined to their magnitude.\n",
    .options = options,
    .run = run,
};
