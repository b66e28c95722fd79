/* SPDX-License-Identifier: MIT */
/*
 * The cache file of a device is text, a word and its values on each line:
 *
 *   gconv 0.1.0
 *   device NVIDIA H200, sm_90, 139.8 GiB
 *   driver CUDA 13.0, driver 13.0
 *   threads 16                           of the CPU: ratios and rates are of this many, a file for each number
 *   machine 3.3e+10 4.2e+09 0.003        multiply-adds a ms, bytes a ms, ms of a launch
 *   ratio direct u8 1 65536 9 1.04       algorithm, type, channels, samples, taps, measured / estimated
 *   layer direct 2 65536 27 0.97         algorithm for layers, class by filters, outputs, taps of each, measured / estimated
 *
 * All but the ratios must be there, and be those of the device. What begins with # is for people.
 */
#include "conv/tuning.h"
#include "base/cache.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gconv_tuning_free(gconv_tuning *tuning) {
  if (!tuning)
    return;
  free(tuning->rows);
  *tuning = (gconv_tuning){.rows = NULL};
}

/* ---- Reading ---- */

/* The name of the algorithm as its descriptor has it, so that it outlives the text; NULL if the device has none. */
static const char *known_algorithm(const gconv_device *device, const char *name) {
  const gconv_algorithm *row;
  for (size_t i = 0; (row = gconv_algorithm_row(i)); i++)
    if (strcmp(row->info.device, device->type->name) == 0 && strcmp(row->info.name, name) == 0)
      return row->info.name;
  return NULL;
}

/* The same of the algorithms for layers. */
static const char *known_layer_algorithm(const gconv_device *device, const char *name) {
  const gconv_algorithm_info *info;
  for (size_t i = 0; (info = gconv_layer_algorithm_at(i)); i++)
    if (strcmp(info->device, device->type->name) == 0 && strcmp(info->name, name) == 0)
      return info->name;
  return NULL;
}

static bool known_type(const char *name, gconv_type *type) {
  for (*type = GCONV_U8; *type <= GCONV_F32; ++*type)
    if (strcmp(gconv_type_name(*type), name) == 0)
      return true;
  return false;
}

static bool is_sensible(double number, double least, double most) {
  return number >= least && number <= most; /* false for NaN */
}

/* False if the values are broken. */
static bool take_ratio(const gconv_device *device, const char *values, gconv_tuning *tuning) {
  char name[32], type[8];
  gconv_tuning_row row = {.algorithm = NULL};
  int end = 0;
  if (sscanf(values, "%31s %7s %d %lf %lf %lf %n", name, type, &row.channels, &row.samples, &row.taps, &row.ratio, &end) !=
          6 ||
      values[end] != '\0' || !known_type(type, &row.type) || row.channels < 1 || row.channels > 4 ||
      !is_sensible(row.samples, 1, 1e15) || !is_sensible(row.taps, 1, 1e12) || !is_sensible(row.ratio, 1e-3, 1e3))
    return false;
  row.algorithm = known_algorithm(device, name);
  if (row.algorithm && tuning->rows)
    tuning->rows[tuning->count++] = row;
  return true;
}

static bool take_layer(const gconv_device *device, const char *values, gconv_tuning *tuning) {
  char name[32];
  gconv_tuning_row row = {.algorithm = NULL, .type = GCONV_F32, .layer = true};
  int end = 0;
  if (sscanf(values, "%31s %d %lf %lf %lf %n", name, &row.channels, &row.samples, &row.taps, &row.ratio, &end) != 5 ||
      values[end] != '\0' || row.channels < 1 || row.channels > 2 || !is_sensible(row.samples, 1, 1e15) ||
      !is_sensible(row.taps, 1, 1e12) || !is_sensible(row.ratio, 1e-3, 1e3))
    return false;
  row.algorithm = known_layer_algorithm(device, name);
  if (row.algorithm && tuning->rows)
    tuning->rows[tuning->count++] = row;
  return true;
}

static bool take_machine(const gconv_device *device, const char *values, gconv_machine *machine) {
  gconv_machine read = device->stock_machine;
  int end = 0;
  if (sscanf(values, "%lf %lf %lf %n", &read.fma_per_ms, &read.bytes_per_ms, &read.launch_ms, &end) != 3 ||
      values[end] != '\0' || !is_sensible(read.fma_per_ms, 1e3, 1e15) || !is_sensible(read.bytes_per_ms, 1e3, 1e15) ||
      !is_sensible(read.launch_ms, 1e-6, 1e3))
    return false;
  *machine = read;
  return true;
}

/* What must be there before the ratios, as bits. */
enum { SEEN_VERSION = 1, SEEN_DEVICE = 2, SEEN_DRIVER = 4, SEEN_THREADS = 8, SEEN_MACHINE = 16, SEEN_ALL = 31 };

typedef struct tuning_reader {
  const gconv_device *device;
  gconv_tuning *tuning;
  int seen;
} tuning_reader;

static bool is_cpu(const gconv_device *device) {
  return strcmp(device->type->name, "cpu") == 0;
}

/* A GPU is as fast whatever the host has. */
static bool fits_threads(const gconv_device *device, int threads) {
  return !is_cpu(device) || threads == gconv_threads_count(device->threads);
}

/* Takes a line apart in place; returns NULL, or why the file is of no use. */
static const char *take_line(tuning_reader *reader, char *line) {
  static const char broken[] = "it is broken";
  char *values = line + strcspn(line, " ");
  if (line[0] == '#' || line[0] == '\0')
    return NULL;
  if (*values != '\0')
    *values++ = '\0';
  if (strcmp(line, "gconv") == 0) {
    reader->seen |= SEEN_VERSION;
    return strcmp(values, gconv_version()) == 0 ? NULL : "it was made by another version of gconv";
  }
  if (strcmp(line, "device") == 0) {
    reader->seen |= SEEN_DEVICE;
    return strcmp(values, reader->device->info.description) == 0 ? NULL : "it is of another device";
  }
  if (strcmp(line, "driver") == 0) {
    reader->seen |= SEEN_DRIVER;
    return strcmp(values, reader->device->info.driver) == 0 ? NULL : "it is of another driver";
  }
  if (strcmp(line, "threads") == 0) {
    reader->seen |= SEEN_THREADS;
    return fits_threads(reader->device, atoi(values)) ? NULL : "it is of another number of threads";
  }
  if (strcmp(line, "machine") == 0) {
    reader->seen |= SEEN_MACHINE;
    return take_machine(reader->device, values, &reader->tuning->machine) ? NULL : broken;
  }
  if (strcmp(line, "layer") == 0)
    return take_layer(reader->device, values, reader->tuning) ? NULL : broken;
  return strcmp(line, "ratio") == 0 && take_ratio(reader->device, values, reader->tuning) ? NULL : broken;
}

static size_t count_lines(const char *text) {
  size_t lines = 1;
  for (; *text; text++)
    lines += *text == '\n';
  return lines;
}

bool gconv_tuning_parse(const gconv_device *device, const char *text, gconv_tuning *tuning, const char **why) {
  char *copy = strdup(text);
  *tuning = (gconv_tuning){.machine = device->stock_machine, .rows = malloc(count_lines(text) * sizeof *tuning->rows)};
  tuning_reader reader = {.device = device, .tuning = tuning};
  *why = copy ? NULL : "there is no memory to read it";
  for (char *line = copy, *next; line && !*why; line = next) {
    next = strchr(line, '\n');
    if (next)
      *next++ = '\0';
    *why = take_line(&reader, line);
  }
  if (!*why && reader.seen != SEEN_ALL)
    *why = "it is not whole";
  free(copy);
  if (*why)
    gconv_tuning_free(tuning);
  return !*why;
}

/* ---- Writing ---- */

char *gconv_tuning_print(const gconv_device *device, const gconv_tuning *tuning) {
  char *memory = NULL;
  size_t size = 0;
  FILE *text = open_memstream(&memory, &size);
  if (!text)
    return NULL;
  fprintf(text, "# What gconv tune measured, for gconv to choose algorithms by. gconv tune --forget removes it.\n");
  fprintf(text, "gconv %s\ndevice %s\ndriver %s\n", gconv_version(), device->info.description, device->info.driver);
  fprintf(text, "threads %d\n", gconv_threads_count(device->threads));
  fprintf(text, "# multiply-adds a ms, bytes a ms, ms of a launch\nmachine %.6g %.6g %.6g\n", tuning->machine.fma_per_ms,
          tuning->machine.bytes_per_ms, tuning->machine.launch_ms);
  fprintf(text, "# algorithm, type, channels of a pixel, samples, taps, milliseconds measured / estimated\n");
  for (size_t i = 0; i < tuning->count; i++) {
    const gconv_tuning_row *row = &tuning->rows[i];
    if (row->layer)
      fprintf(text, "layer %s %d %.0f %.0f %.6g\n", row->algorithm, row->channels, row->samples, row->taps, row->ratio);
    else
      fprintf(text, "ratio %s %s %d %.0f %.0f %.6g\n", row->algorithm, gconv_type_name(row->type), row->channels,
              row->samples, row->taps, row->ratio);
  }
  gconv_close_text(text, &memory);
  return memory;
}

/* ---- Of a device ---- */

/* "tune-cpu-16.txt", by its threads; "tune-cuda-0.txt". */
static void file_name(const gconv_device *device, char *name, size_t size) {
  if (is_cpu(device))
    snprintf(name, size, "tune-cpu-%d.txt", gconv_threads_count(device->threads));
  else
    snprintf(name, size, "tune-%s.txt", device->info.name);
  for (char *at = name; *at; at++)
    *at = *at == ':' ? '-' : *at;
}

char *gconv_device_tuning_path(const gconv_device *device) {
  char name[64];
  file_name(device, name, sizeof name);
  return gconv_cache_path(name);
}

const gconv_tuning *gconv_device_get_tuning(const gconv_device *device) {
  return device->tuned ? &device->tuning : NULL;
}

const gconv_machine *gconv_device_get_machine(const gconv_device *device) {
  return &device->machine;
}

gconv_status gconv_device_set_tuning(gconv_device *device, const gconv_tuning *tuning) {
  gconv_tuning_row *rows = NULL;
  if (tuning) {
    rows = malloc((tuning->count + 1) * sizeof *rows);
    if (!rows)
      return gconv_fail(GCONV_NO_MEMORY, "no memory for what was measured");
    if (tuning->count > 0)
      memcpy(rows, tuning->rows, tuning->count * sizeof *rows);
  }
  gconv_machine machine = tuning ? tuning->machine : device->stock_machine;
  size_t count = tuning ? tuning->count : 0;
  gconv_tuning_free(&device->tuning);
  device->tuning = (gconv_tuning){.machine = machine, .rows = rows, .count = count};
  device->machine = machine;
  device->tuned = tuning != NULL;
  return GCONV_OK;
}

/* True once for each name: every worker of a batch opens its device, and reads the same file. */
static bool is_new_complaint(const char *name) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static char names[1024];
  pthread_mutex_lock(&lock);
  size_t used = strlen(names);
  bool is_new = !strstr(names, name);
  if (is_new && used + strlen(name) < sizeof names)
    memcpy(names + used, name, strlen(name) + 1);
  pthread_mutex_unlock(&lock);
  return is_new;
}

static void warn_of_file(const gconv_device *device, const char *name, const char *why) {
  if (!is_new_complaint(name))
    return;
  char *path = gconv_cache_path(name), threads[32] = "";
  if (is_cpu(device))
    snprintf(threads, sizeof threads, " --threads %d", gconv_threads_count(device->threads));
  gconv_warn("%s is ignored: %s; gconv tune -d %s%s makes a new one", path ? path : name, why, device->info.name, threads);
  free(path);
}

void gconv_tuning_recall(gconv_device *device) {
  char name[64];
  file_name(device, name, sizeof name);
  device->stock_machine = device->machine;
  if (strcmp(device->type->name, "cuda") == 0 && gconv_tuning_calibrate(&device->calibration) != GCONV_OK)
    gconv_remark("%s: %s", device->info.name, gconv_last_error());
  char *text = gconv_cache_read(name);
  if (!text)
    return;
  const char *why;
  gconv_tuning tuning;
  if (gconv_tuning_parse(device, text, &tuning, &why)) {
    device->tuning = tuning;
    device->machine = tuning.machine;
    device->tuned = true;
  } else {
    warn_of_file(device, name, why);
  }
  free(text);
}

gconv_status gconv_device_remember_tuning(gconv_device *device) {
  char name[64];
  file_name(device, name, sizeof name);
  char *path = gconv_cache_path(name), *text = NULL;
  gconv_status status = GCONV_OK;
  if (!path)
    status = gconv_fail(GCONV_IO_ERROR, "there is no folder to remember anything in: set GCONV_CACHE or HOME");
  else if (!device->tuned && unlink(path) != 0 && errno != ENOENT)
    status = gconv_fail(GCONV_IO_ERROR, "%s cannot be removed: %s", path, strerror(errno));
  else if (device->tuned && !((text = gconv_tuning_print(device, &device->tuning)) && gconv_cache_write(name, text)))
    status = gconv_fail(GCONV_IO_ERROR, "%s cannot be written", path);
  free(text);
  free(path);
  return status;
}

/* ---- What it makes of an estimate ---- */

/* How far x is on the way from `low` to `high`, all positive and by their logarithms; 0 or 1 beyond them. */
static double position(double low, double high, double x) {
  if (x <= low || high <= low)
    return 0;
  return x >= high ? 1 : log(x / low) / log(high / low);
}

/* The measured sizes around x: the largest that is not above it, and the smallest that is not below; at the ends, the same
 * twice. */
typedef struct bracket {
  double low, high;
} bracket;

static void widen(bracket *around, double value, double x) {
  if (value <= x && !(around->low >= value)) /* NAN: none yet */
    around->low = value;
  if (value >= x && !(around->high <= value))
    around->high = value;
}

static bracket close_bracket(bracket around) {
  around.low = isnan(around.low) ? around.high : around.low;
  around.high = isnan(around.high) ? around.low : around.high;
  return around;
}

typedef struct question {
  const gconv_tuning *tuning;
  const char *algorithm;
  gconv_type type;
  int32_t channels; /* 1, or more as one kind */
  bool layer;
} question;

static bool is_about(const gconv_tuning_row *row, const question *asked) {
  return row->layer == asked->layer && row->type == asked->type && (row->channels > 1) == (asked->channels > 1) &&
         strcmp(row->algorithm, asked->algorithm) == 0;
}

/* The logarithm of the ratio at a measured number of samples, interpolated over the taps. */
static double log_ratio_at(const question *asked, double samples, double taps) {
  bracket around = {NAN, NAN};
  double low = 0, high = 0;
  for (size_t i = 0; i < asked->tuning->count; i++) {
    const gconv_tuning_row *row = &asked->tuning->rows[i];
    if (is_about(row, asked) && row->samples == samples)
      widen(&around, row->taps, taps);
  }
  around = close_bracket(around);
  for (size_t i = 0; i < asked->tuning->count; i++) {
    const gconv_tuning_row *row = &asked->tuning->rows[i];
    if (!is_about(row, asked) || row->samples != samples)
      continue;
    if (row->taps == around.low)
      low = log(row->ratio);
    if (row->taps == around.high)
      high = log(row->ratio);
  }
  return low + (high - low) * position(around.low, around.high, taps);
}

/* ---- What is known of devices that were not tuned ---- */

enum { CALIBRATED_SIZES = 9 };
static const double calibrated_taps[CALIBRATED_SIZES] = {9, 25, 49, 81, 121, 225, 441, 961, 3969};

/* A line of calibration_cuda.def. */
typedef struct calibration {
  const char *algorithm;
  gconv_type type;
  int32_t channels;
  double samples;
  double ratios[CALIBRATED_SIZES];
} calibration;

#define CALIBRATED(algorithm, type, channels, samples, ...) {algorithm, type, channels, samples, {__VA_ARGS__}},
static const calibration calibrations[] = {
#include "conv/calibration_cuda.def"
};
#undef CALIBRATED
enum { CALIBRATIONS = sizeof calibrations / sizeof *calibrations };

gconv_status gconv_tuning_calibrate(gconv_tuning *tuning) {
  gconv_tuning_row *rows = calloc((size_t)CALIBRATIONS * CALIBRATED_SIZES, sizeof *rows);
  if (!rows)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a table of estimates");
  tuning->rows = rows;
  tuning->count = 0;
  for (int i = 0; i < CALIBRATIONS; i++)
    for (int size = 0; size < CALIBRATED_SIZES; size++)
      if (calibrations[i].ratios[size] > 0)
        rows[tuning->count++] = (gconv_tuning_row){.algorithm = calibrations[i].algorithm,
                                                   .type = calibrations[i].type,
                                                   .channels = calibrations[i].channels,
                                                   .samples = calibrations[i].samples,
                                                   .taps = calibrated_taps[size],
                                                   .ratio = calibrations[i].ratios[size]};
  return GCONV_OK;
}

/* ---- The ratio of a problem ---- */

/* The taps of a filter that the algorithm works on: what was measured are filters without zeros. */
static double working_taps(const char *algorithm, const gconv_problem *problem) {
  double taps = (double)problem->rows * problem->columns, nonzero = (double)problem->structure.nonzero_taps;
  return strcmp(algorithm, "sparse") == 0 ? fmax(nonzero / problem->filters, 1) : taps;
}

/* 1, where nothing of the kind was measured. */
static double find_ratio(const question *asked, double samples, double taps) {
  const gconv_tuning *tuning = asked->tuning;
  bracket around = {NAN, NAN};
  for (size_t i = 0; tuning && i < tuning->count; i++)
    if (is_about(&tuning->rows[i], asked))
      widen(&around, tuning->rows[i].samples, samples);
  around = close_bracket(around);
  if (isnan(around.low))
    return 1;
  double low = log_ratio_at(asked, around.low, taps), high = log_ratio_at(asked, around.high, taps);
  return exp(low + (high - low) * position(around.low, around.high, samples));
}

int32_t gconv_tuning_layer_class(int32_t filters) {
  return filters < 32 ? 1 : 2;
}

double gconv_tuning_layer_ratio(const gconv_tuning *tuning, const char *algorithm, int32_t filters, double outputs,
                                double taps) {
  question asked = {tuning, algorithm, GCONV_F32, gconv_tuning_layer_class(filters), true};
  return find_ratio(&asked, outputs, taps);
}

double gconv_tuning_ratio(const gconv_tuning *tuning, const char *algorithm, const gconv_problem *problem) {
  double filters = gconv_is_combined(problem) ? 1 : problem->filters, taps = working_taps(algorithm, problem);
  double outputs = (double)problem->images * problem->planes * problem->channels * filters;
  double samples = outputs * problem->out_height * problem->out_width;
  question asked = {tuning, algorithm, problem->in_type, problem->channels, false};
  return find_ratio(&asked, samples, taps);
}
