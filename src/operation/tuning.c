/* SPDX-License-Identifier: MIT */
/*
 * The file of a device is text, a word and its values on each line:
 *
 *   gconv 0.1.0
 *   device NVIDIA H200, sm_90            its kind: its description without the last part (threads or memory)
 *   driver CUDA 13.0, driver for 13.0
 *   machine 3.3e+10 4.2e+09 0.003        multiply-adds a ms, bytes a ms, ms of a launch
 *   ratio direct u8 1 65536 9 1.04       algorithm, type, channels, samples, taps, measured / estimated
 *   layer direct 2 65536 27 0.97         algorithm for layers, class (1: < 32 filters), outputs, taps, measured / estimated
 *
 * The first four lines are required, and must fit the device. Lines that begin with # are comments. A CPU has one file for
 * any number of threads, because choices, and with them results, must not depend on threads.
 */
#include "operation/tuning.h"
#include "base/cache.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

void gconv_tuning_free(gconv_tuning *tuning) {
  if (!tuning)
    return;
  free(tuning->rows);
  *tuning = (gconv_tuning){.rows = NULL};
}

/* ---- Reading ---- */

static bool known_type(const char *name, gconv_type *type) {
  for (*type = GCONV_U8; *type <= GCONV_F32; ++*type)
    if (strcmp(gconv_type_name(*type), name) == 0)
      return true;
  return false;
}

static bool is_sensible(double number, double least, double most) {
  return number >= least && number <= most; /* false for NaN */
}

static bool keep_row(gconv_tuning *tuning, const gconv_tuning_row *row) {
  if (!is_sensible(row->samples, 1, 1e15) || !is_sensible(row->taps, 1, 1e12) || !is_sensible(row->ratio, 1e-3, 1e3))
    return false;
  if (tuning->rows)
    tuning->rows[tuning->count++] = *row;
  return true;
}

/* Adds a row of ratios. Returns false if the values are broken. */
static bool take_ratio(const char *values, gconv_tuning *tuning) {
  char type[8];
  gconv_tuning_row row = {.layer = false};
  int end = 0;
  return sscanf(values, "%31s %7s %d %lf %lf %lf %n", row.algorithm, type, &row.channels, &row.samples, &row.taps,
                &row.ratio, &end) == 6 &&
         values[end] == '\0' && known_type(type, &row.type) && row.channels >= 1 && row.channels <= 4 &&
         keep_row(tuning, &row);
}

static bool take_layer(const char *values, gconv_tuning *tuning) {
  gconv_tuning_row row = {.type = GCONV_F32, .layer = true};
  int end = 0;
  return sscanf(values, "%31s %d %lf %lf %lf %n", row.algorithm, &row.channels, &row.samples, &row.taps, &row.ratio, &end) ==
             5 &&
         values[end] == '\0' && row.channels >= 1 && row.channels <= 2 && keep_row(tuning, &row);
}

static bool take_machine(const gconv_device *device, const char *values, gconv_machine *machine) {
  gconv_machine read = *gconv_device_get_machine(device);
  int end = 0;
  if (sscanf(values, "%lf %lf %lf %n", &read.fma_per_ms, &read.bytes_per_ms, &read.launch_ms, &end) != 3 ||
      values[end] != '\0' || !is_sensible(read.fma_per_ms, 1e3, 1e15) || !is_sensible(read.bytes_per_ms, 1e3, 1e15) ||
      !is_sensible(read.launch_ms, 1e-6, 1e3))
    return false;
  *machine = read;
  return true;
}

/* The required lines, as bits. */
enum { SEEN_VERSION = 1, SEEN_DEVICE = 2, SEEN_DRIVER = 4, SEEN_MACHINE = 8, SEEN_ALL = 15 };

typedef struct tuning_reader {
  const gconv_device *device;
  gconv_tuning *tuning;
  int seen;
} tuning_reader;

/* Returns the length of the device's description up to its last comma. */
static int kind_length(const gconv_device *device) {
  const char *text = gconv_device_get_info(device)->description, *comma = strrchr(text, ',');
  return comma ? (int)(comma - text) : (int)strlen(text);
}

static bool is_kind(const gconv_device *device, const char *kind) {
  size_t length = (size_t)kind_length(device);
  return strlen(kind) == length && strncmp(kind, gconv_device_get_info(device)->description, length) == 0;
}

/* Parses a line in place. Returns NULL, or the reason why the file cannot be used. */
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
    return is_kind(reader->device, values) ? NULL : "it is of another device";
  }
  if (strcmp(line, "driver") == 0) {
    reader->seen |= SEEN_DRIVER;
    return strcmp(values, gconv_device_get_info(reader->device)->driver) == 0 ? NULL : "it is of another driver";
  }
  if (strcmp(line, "machine") == 0) {
    reader->seen |= SEEN_MACHINE;
    return take_machine(reader->device, values, &reader->tuning->machine) ? NULL : broken;
  }
  if (strcmp(line, "layer") == 0)
    return take_layer(values, reader->tuning) ? NULL : broken;
  return strcmp(line, "ratio") == 0 && take_ratio(values, reader->tuning) ? NULL : broken;
}

static size_t count_lines(const char *text) {
  size_t lines = 1;
  for (; *text; text++)
    lines += *text == '\n';
  return lines;
}

bool gconv_tuning_parse(const gconv_device *device, const char *text, gconv_tuning *tuning, const char **why) {
  char *copy = strdup(text);
  *tuning =
      (gconv_tuning){.machine = *gconv_device_get_machine(device), .rows = malloc(count_lines(text) * sizeof *tuning->rows)};
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
  const gconv_device_info *info = gconv_device_get_info(device);
  fprintf(text, "gconv %s\ndevice %.*s\ndriver %s\n", gconv_version(), kind_length(device), info->description, info->driver);
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

/* ---- Ratios for devices that were not tuned ---- */

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
#include "operation/calibration_cuda.def"
};
#undef CALIBRATED
enum { CALIBRATIONS = sizeof calibrations / sizeof *calibrations };

/* Adds the rows of the calibration. If there is no memory, adds none. */
static void calibrate(gconv_tuning *tuning) {
  tuning->rows = calloc((size_t)CALIBRATIONS * CALIBRATED_SIZES, sizeof *tuning->rows);
  for (int i = 0; i < CALIBRATIONS && tuning->rows; i++)
    for (int size = 0; size < CALIBRATED_SIZES; size++) {
      const calibration *line = &calibrations[i];
      gconv_tuning_row *row = &tuning->rows[tuning->count];
      if (line->ratios[size] <= 0)
        continue;
      *row = (gconv_tuning_row){.type = line->type,
                                .channels = line->channels,
                                .samples = line->samples,
                                .taps = calibrated_taps[size],
                                .ratio = line->ratios[size]};
      snprintf(row->algorithm, sizeof row->algorithm, "%s", line->algorithm);
      tuning->count++;
    }
}

/* ---- The tuning of a device ---- */

/* The tuning of a device, kept until the process ends: an entry of a list, one for each name of a device. */
typedef struct memo {
  char name[32];
  bool tuned;
  gconv_tuning tuning;      /* used if the device is tuned */
  gconv_tuning calibration; /* used if it is not */
  struct memo *next;
} memo;

static pthread_mutex_t memos_lock = PTHREAD_MUTEX_INITIALIZER;
static memo *memos;

/* Returns whether the device is a CPU, which has no driver. */
static bool is_cpu(const gconv_device *device) {
  return gconv_device_get_info(device)->driver[0] == '\0';
}

/* Writes the file's name: "tune-cpu.txt", "tune-cuda-0.txt". */
static void file_name(const gconv_device *device, char *name, size_t size) {
  snprintf(name, size, "tune-%s.txt", gconv_device_get_info(device)->name);
  for (char *at = name; *at; at++)
    *at = *at == ':' ? '-' : *at;
}

char *gconv_device_tuning_path(const gconv_device *device) {
  char name[64];
  file_name(device, name, sizeof name);
  return gconv_cache_path(name);
}

static void recall(const gconv_device *device, memo *into) {
  char name[64];
  const char *why;
  file_name(device, name, sizeof name);
  char *text = gconv_cache_read(name), *path = text ? gconv_cache_path(name) : NULL;
  into->tuned = text && gconv_tuning_parse(device, text, &into->tuning, &why);
  if (text && !into->tuned)
    gconv_warn("%s is ignored: %s; gconv tune -d %s makes a new one", path ? path : name, why,
               gconv_device_get_info(device)->name);
  gconv_release(text);
  free(path);
}

/* Returns the entry of the device. The first call makes it. NULL: there is no memory. The caller holds the lock. */
static memo *find_memo(const gconv_device *device) {
  const char *name = gconv_device_get_info(device)->name;
  memo *found = memos;
  while (found && strcmp(found->name, name) != 0)
    found = found->next;
  if (found || !(found = calloc(1, sizeof *found)))
    return found;
  snprintf(found->name, sizeof found->name, "%s", name);
  if (!is_cpu(device))
    calibrate(&found->calibration);
  recall(device, found);
  found->next = memos;
  memos = found;
  return found;
}

gconv_prices gconv_device_prices(const gconv_device *device) {
  gconv_prices prices = {.machine = *gconv_device_get_machine(device), .unit = ""};
  pthread_mutex_lock(&memos_lock);
  const memo *known = find_memo(device);
  if (known && known->tuned)
    prices = (gconv_prices){known->tuning.machine, &known->tuning, "gconv tune found", ""};
  else if (known && known->calibration.count > 0)
    prices = (gconv_prices){prices.machine, &known->calibration, "measured on an H200", ""};
  else if (is_cpu(device))
    prices.unit = ", in ms of one thread of the reference CPU";
  pthread_mutex_unlock(&memos_lock);
  return prices;
}

const gconv_tuning *gconv_device_get_tuning(const gconv_device *device) {
  pthread_mutex_lock(&memos_lock);
  const memo *known = find_memo(device);
  pthread_mutex_unlock(&memos_lock);
  return known && known->tuned ? &known->tuning : NULL;
}

static gconv_status put_in_force(const gconv_device *device, const gconv_tuning *tuning) {
  memo *known = find_memo(device);
  gconv_tuning copy = tuning ? *tuning : (gconv_tuning){.rows = NULL};
  copy.rows = tuning && known ? malloc((tuning->count + 1) * sizeof *copy.rows) : NULL;
  if (!known || (tuning && !copy.rows))
    return gconv_fail(GCONV_NO_MEMORY, "no memory for what was measured");
  if (copy.count > 0)
    memcpy(copy.rows, tuning->rows, copy.count * sizeof *copy.rows);
  gconv_tuning_free(&known->tuning);
  known->tuning = copy;
  known->tuned = tuning != NULL;
  return GCONV_OK;
}

gconv_status gconv_device_set_tuning(gconv_device *device, const gconv_tuning *tuning) {
  pthread_mutex_lock(&memos_lock);
  gconv_status status = put_in_force(device, tuning);
  pthread_mutex_unlock(&memos_lock);
  return status;
}

gconv_status gconv_device_remember_tuning(gconv_device *device) {
  const gconv_tuning *tuning = gconv_device_get_tuning(device);
  char name[64];
  file_name(device, name, sizeof name);
  GCONV_FREED char *path = gconv_cache_path(name), *text = NULL;
  if (!path)
    return gconv_fail(GCONV_IO_ERROR, "there is no folder to remember anything in: set GCONV_CACHE or HOME");
  if (!tuning && unlink(path) != 0 && errno != ENOENT)
    return gconv_fail(GCONV_IO_ERROR, "%s cannot be removed: %s", path, strerror(errno));
  if (tuning && !((text = gconv_tuning_print(device, tuning)) && gconv_cache_write(name, text)))
    return gconv_fail(GCONV_IO_ERROR, "%s cannot be written", path);
  return GCONV_OK;
}

/* ---- Ratios ---- */

/* Returns the position of x between `low` and `high`, by logarithms: 0 at or below `low`, 1 at or above `high`. */
static double position(double low, double high, double x) {
  if (x <= low || high <= low)
    return 0;
  return x >= high ? 1 : log(x / low) / log(high / low);
}

static bool is_about(const gconv_tuning_row *row, const gconv_tuning_row *like) {
  return row->layer == like->layer && row->type == like->type && (row->channels > 1) == (like->channels > 1) &&
         strcmp(row->algorithm, like->algorithm) == 0;
}

/* Returns the logarithm of the ratio at a measured number of samples, interpolated between the nearest measured numbers of
 * taps. Beyond all of these, the ratio of the nearest is used. */
static double log_ratio_at(const gconv_tuning *tuning, const gconv_tuning_row *like, double samples) {
  const gconv_tuning_row *low = NULL, *high = NULL;
  for (size_t i = 0; i < tuning->count; i++) {
    const gconv_tuning_row *row = &tuning->rows[i];
    if (!is_about(row, like) || row->samples != samples)
      continue;
    if (row->taps <= like->taps && (!low || row->taps >= low->taps))
      low = row;
    if (row->taps >= like->taps && (!high || row->taps <= high->taps))
      high = row;
  }
  low = low ? low : high;
  high = high ? high : low;
  double from = log(low->ratio), to = log(high->ratio);
  return from + (to - from) * position(low->taps, high->taps, like->taps);
}

double gconv_tuning_ratio(const gconv_tuning *tuning, const gconv_tuning_row *like) {
  double below = 0, above = HUGE_VAL; /* measured numbers of samples */
  for (size_t i = 0; tuning && i < tuning->count; i++) {
    const gconv_tuning_row *row = &tuning->rows[i];
    if (is_about(row, like) && row->samples <= like->samples)
      below = fmax(below, row->samples);
    if (is_about(row, like) && row->samples >= like->samples)
      above = fmin(above, row->samples);
  }
  if (below == 0 && above == HUGE_VAL)
    return 1;
  below = below > 0 ? below : above;
  above = above < HUGE_VAL ? above : below;
  double low = log_ratio_at(tuning, like, below), high = log_ratio_at(tuning, like, above);
  return exp(low + (high - low) * position(below, above, like->samples));
}

int32_t gconv_tuning_layer_class(int32_t filters) {
  return filters < 32 ? 1 : 2;
}
