/* SPDX-License-Identifier: MIT */
/*
 * A GPU that gets ready late, for tests on machines that have none: part of a gconv of its own, whose calls of the functions
 * below are led here by the linker. "cuda" is the CPU by another name; it is open, and its decoder started, when the file
 * $LATE_GPU is there; from then on images of the CPU wait for it, so that some are left. Without a device asked for, it is
 * chosen with $LATE_GPU_CHOSEN, and if that is "decoder", its decoder, too; if that is "rule", by the rule. With
 * $LATE_GPU_FAILS, it cannot be opened then; if that is "cpu", the CPU is. With $LATE_GPU_MAKES, a number, it yields results
 * in parts: where PNG is wanted, so many strips as bytes, then one as rows, and so on; with $LATE_GPU_BREAKS, it fails after
 * the first. Else it refuses that, and leaves all files to the CPU's decoder. With $LATE_GPU_PLANS, a number, it has memory
 * for so many plans at a time. What is asked of it, it writes to the file $LATE_GPU_LOG, a line each: "start", "jpeg parts",
 * "parts", "whole"; and at its end, if plans are counted, how many it still has: "0 plans"; and "exit()" if the program ends
 * by that. With $LATE_WORKER, the path of a file, all workers but the first begin when that is there, and find no memory for
 * a device.
 */
#include "batch/devices.h"
#include "batch/worth.h"
#include "device/decoder.h"
#include "device/device.h"
#include "png_cut.h"

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gconv_worth __real_gconv_worth_find(const gconv_batch *batch, bool looks);
gconv_status __real_gconv_devices_await_turn(gconv_devices *devices, int worker, gconv_device **cpu);
gconv_status __real_gconv_device_open(const char *name, int threads, gconv_device **device);
gconv_status __real_gconv_plan_execute(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, size_t count,
                                       gconv_timings *timings);
gconv_status __real_gconv_plan_execute_rows(gconv_plan *plan, const gconv_input_rows *window, int32_t first,
                                            gconv_image *outputs, size_t count, gconv_timings *timings);

static void note(const char *word) {
  const char *path = getenv("LATE_GPU_LOG");
  FILE *log = path ? fopen(path, "ae") : NULL;
  if (!log)
    return;
  fprintf(log, "%s\n", word);
  fclose(log);
}

#ifndef GCONV_ENDS_BY_EXIT
__attribute__((destructor)) static void end(void) {
  note("exit()");
}
#endif

enum { PAUSE_MS = 2, MOST_PAUSES = 30000 };

static bool file_is_there(void) {
  return access(getenv("LATE_GPU"), F_OK) == 0;
}

static atomic_int begun_openings, ended_openings;

/* Waits when the CPU opens an image, and a moment longer, so that the threads that open the GPU can announce it. */
static void let_it_open(const gconv_plan *plan) {
  enum { MOMENT_MS = 20 };
  if (strcmp(gconv_plan_get_info(plan)->device, "cuda:0") == 0 || !file_is_there())
    return;
  for (int i = 0; i < MOST_PAUSES && atomic_load(&begun_openings) > atomic_load(&ended_openings); i++)
    poll(NULL, 0, PAUSE_MS);
  if (atomic_load(&ended_openings) > 0)
    poll(NULL, 0, MOMENT_MS);
}

bool __wrap_gconv_gpu_may_be_there(void) {
  return getenv("LATE_GPU_CHOSEN") != NULL;
}

gconv_worth __wrap_gconv_worth_find(const gconv_batch *batch, bool looks) {
  gconv_worth worth = __real_gconv_worth_find(batch, looks);
  worth.gpu_can = worth.cpu_can; /* it is a CPU */
  if (!looks || strcmp(getenv("LATE_GPU_CHOSEN"), "rule") == 0)
    return worth;
  worth.gpu = true;
  worth.decoder = batch->decoder == GCONV_DECODER_AUTO && strcmp(getenv("LATE_GPU_CHOSEN"), "decoder") == 0;
  return worth;
}

/* Under the name of a GPU, or, as "auto" does where there is none, of the CPU. */
static gconv_status open_it(int threads, gconv_device **device) {
  gconv_device *opened = NULL;
  GCONV_TRY(__real_gconv_device_open("cpu", threads, &opened));
  for (int i = 0; i < MOST_PAUSES && !file_is_there(); i++)
    poll(NULL, 0, PAUSE_MS);
  const char *fails = getenv("LATE_GPU_FAILS");
  if (fails && strcmp(fails, "cpu") == 0) {
    *device = opened;
    return GCONV_OK;
  }
  if (fails) {
    gconv_device_close(opened);
    return gconv_fail(GCONV_UNSUPPORTED, "the GPU is too late");
  }
  snprintf(opened->info.name, sizeof opened->info.name, "cuda:0");
  *device = opened;
  return GCONV_OK;
}

gconv_status __wrap_gconv_device_open(const char *name, int threads, gconv_device **device) {
  if (strcmp(name, "cpu") == 0)
    return __real_gconv_device_open(name, threads, device);
  atomic_fetch_add(&begun_openings, 1);
  gconv_status status = open_it(threads, device);
  atomic_fetch_add(&ended_openings, 1);
  return status;
}

/* Of workers but the first. */
gconv_status __wrap_gconv_devices_await_turn(gconv_devices *devices, int worker, gconv_device **cpu) {
  const char *last = getenv("LATE_WORKER");
  if (!last || worker == 0)
    return __real_gconv_devices_await_turn(devices, worker, cpu);
  for (int i = 0; i < MOST_PAUSES && access(last, F_OK) != 0; i++)
    poll(NULL, 0, PAUSE_MS);
  return gconv_fail(GCONV_NO_MEMORY, "no memory for a device");
}

gconv_status __wrap_gconv_plan_execute(gconv_plan *plan, const gconv_image *in, gconv_image *outputs, size_t count,
                                       gconv_timings *timings) {
  let_it_open(plan);
  return __real_gconv_plan_execute(plan, in, outputs, count, timings);
}

gconv_status __wrap_gconv_plan_execute_rows(gconv_plan *plan, const gconv_input_rows *window, int32_t first,
                                            gconv_image *outputs, size_t count, gconv_timings *timings) {
  let_it_open(plan);
  return __real_gconv_plan_execute_rows(plan, window, first, outputs, count, timings);
}

const char *__wrap_gconv_device_decoder_obstacle(void) {
  return NULL;
}

gconv_status __wrap_gconv_device_start_decoder(gconv_device *device) {
  (void)device;
  note("start");
  return GCONV_OK;
}

/* ---- Memory ---- */

gconv_status __real_gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                      int32_t rows, gconv_plan **plan);
void __real_gconv_plan_free(gconv_plan *plan);
void __real_gconv_device_close(gconv_device *device);

static atomic_int plans;

gconv_status __wrap_gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                      int32_t rows, gconv_plan **plan) {
  const char *most = getenv("LATE_GPU_PLANS");
  if (!most || strcmp(device->info.name, "cuda:0") != 0)
    return __real_gconv_plan_create(device, like, operation, rows, plan);
  gconv_status status = GCONV_NO_MEMORY;
  if (atomic_fetch_add(&plans, 1) < atoi(most))
    status = __real_gconv_plan_create(device, like, operation, rows, plan);
  else
    gconv_fail(status, "the GPU has no memory");
  if (status != GCONV_OK)
    atomic_fetch_sub(&plans, 1);
  return status;
}

void __wrap_gconv_plan_free(gconv_plan *plan) {
  if (plan && getenv("LATE_GPU_PLANS") && strcmp(gconv_plan_get_info(plan)->device, "cuda:0") == 0)
    atomic_fetch_sub(&plans, 1);
  __real_gconv_plan_free(plan);
}

void __wrap_gconv_device_close(gconv_device *device) {
  char text[32];
  snprintf(text, sizeof text, "%d plans", atomic_load(&plans));
  if (device && getenv("LATE_GPU_PLANS") && strcmp(device->info.name, "cuda:0") == 0)
    note(text);
  __real_gconv_device_close(device);
}

size_t __wrap_gconv_plan_png_bytes(const gconv_plan *plan) {
  return getenv("LATE_GPU_MAKES") && strcmp(gconv_plan_get_info(plan)->device, "cuda:0") == 0 ? 12300000 : 0;
}

/* ---- Results in parts ---- */

/* Writes bytes, or an image as PNG, to a file that is gone when it is open. -1 on failure. */
static int open_temporary(const void *bytes, size_t size, const gconv_image *image) {
  char name[] = "/tmp/gconv-late-XXXXXX";
  int file = mkstemp(name);
  gconv_write_options options = {.format = gconv_format_by_name("png"), .png_level = 1, .threads = 1};
  bool good = file >= 0 && (!bytes || write(file, bytes, size) == (ssize_t)size);
  if (good && image) {
    close(file);
    file = -1; /* the number may be another thread's file from now on */
    good = gconv_image_write(name, &options, image) == GCONV_OK && (file = open(name, O_RDONLY | O_CLOEXEC)) >= 0;
  }
  unlink(name);
  if (!good && file >= 0)
    close(file);
  return good ? file : -1;
}

static gconv_status decode(const void *jpeg, size_t size, gconv_image *image) {
  char name[64];
  int file = open_temporary(jpeg, size, NULL);
  if (file < 0)
    return gconv_fail(GCONV_IO_ERROR, "no file for the GPU");
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  gconv_status status = gconv_image_read(name, NULL, image);
  close(file);
  return status;
}

/* Reads all of a file into memory for free(); NULL on failure. */
static uint8_t *load(int file, size_t *size) {
  off_t end = lseek(file, 0, SEEK_END);
  uint8_t *bytes = malloc((size_t)end);
  *size = (size_t)end;
  if (bytes && pread(file, bytes, *size, 0) == (ssize_t)*size)
    return bytes;
  free(bytes);
  return NULL;
}

static gconv_status send_png(const gconv_image *result, size_t output, const gconv_taker *taker, size_t made) {
  enum { MOST = 64 };
  png_cut strips[MOST];
  size_t size = 0, count = 0;
  int file = open_temporary(NULL, 0, result);
  uint8_t *bytes = file >= 0 ? load(file, &size) : NULL;
  if (bytes)
    count = png_cut_strips(bytes, size, strips, MOST);
  const uint8_t *row = result->data;
  const size_t line = (size_t)result->width * (size_t)result->channels * gconv_type_bytes(result->type) + 1;
  for (size_t i = 0; i < count; i++) {
    gconv_part part = {.count = (int32_t)(strips[i].lines / line)};
    if (i % (made + 1) < made) {
      gconv_part half = {.bytes = strips[i].chunk, .size = strips[i].size / 2, .adler = 1};
      taker->take(taker->user, output, &half);
      part.bytes = strips[i].chunk + half.size;
      part.size = strips[i].size - half.size;
      part.adler = strips[i].adler;
    } else {
      part.samples = row;
      part.row_bytes = result->row_bytes;
      part.above = i > 0 && made > 0 ? row - result->row_bytes : NULL;
    }
    taker->take(taker->user, output, &part);
    row += (size_t)part.count * result->row_bytes;
    if (getenv("LATE_GPU_BREAKS"))
      count = 0;
  }
  free(bytes);
  if (file >= 0)
    close(file);
  return count > 0 ? GCONV_OK : gconv_fail(GCONV_DEVICE_ERROR, "the GPU breaks, or has no memory");
}

static gconv_status send_all(gconv_plan *plan, const gconv_image *in, const gconv_taker *taker, gconv_timings *timings) {
  size_t count = gconv_plan_outputs(plan);
  gconv_image *results = calloc(count, sizeof *results);
  gconv_status status = results ? gconv_plan_execute(plan, in, results, gconv_plan_outputs(plan), timings) : GCONV_NO_MEMORY;
  int32_t step = status == GCONV_OK ? taker->begin(taker->user) : 0;
  for (size_t i = 0; i < count && status == GCONV_OK; i++)
    if (taker->png)
      status = send_png(&results[i], i, taker, strtoul(getenv("LATE_GPU_MAKES"), NULL, 10));
    else
      for (int32_t y = 0, rows; y < results[i].height; y += rows) {
        rows = results[i].height - y < step ? results[i].height - y : step;
        const uint8_t *row = (const uint8_t *)results[i].data + (size_t)y * results[i].row_bytes;
        taker->take(taker->user, i, &(gconv_part){.count = rows, .samples = row, .row_bytes = results[i].row_bytes});
      }
  for (size_t i = 0; results && i < count; i++)
    gconv_image_free(&results[i]);
  free(results);
  return status;
}

gconv_status __wrap_gconv_plan_execute_parts(gconv_plan *plan, const gconv_image *in, const void *jpeg, size_t size,
                                             const gconv_taker *taker, gconv_timings *timings) {
  gconv_image decoded = {0};
  note(jpeg ? "jpeg parts" : "parts");
  if (!getenv("LATE_GPU_MAKES"))
    return gconv_fail(GCONV_BAD_FILE, "the GPU refuses it");
  if (jpeg)
    GCONV_TRY(decode(jpeg, size, &decoded));
  gconv_status status = send_all(plan, jpeg ? &decoded : in, taker, timings);
  gconv_image_free(&decoded);
  return status;
}

gconv_status __wrap_gconv_plan_execute_jpeg(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *header,
                                            gconv_image *outputs, gconv_timings *timings) {
  (void)plan, (void)jpeg, (void)size, (void)header, (void)outputs, (void)timings;
  note("whole");
  return gconv_fail(GCONV_BAD_FILE, "the GPU refuses it");
}
