/* SPDX-License-Identifier: MIT */
/*
 * A GPU that gets ready late, for tests on machines that have none: part of a gconv of its own, whose calls of the functions
 * below are led here by the linker. "cuda" is the CPU by another name; it is open, and its decoder started, when the file
 * $LATE_GPU is there. It leaves all files to the CPU's decoder. With $LATE_GPU_FAILS, it cannot be opened then. What is
 * asked of its decoder, it writes to the file $LATE_GPU_LOG, a word a line: "start", "rows", "whole".
 */
#include "conv/device.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

gconv_status __real_gconv_device_open_begin(const char *name, int threads, gconv_device_opening **opening);
gconv_status __real_gconv_device_open_end(gconv_device_opening *opening, gconv_device **device);

static void note(const char *word) {
  const char *path = getenv("LATE_GPU_LOG");
  FILE *log = path ? fopen(path, "ae") : NULL;
  if (!log)
    return;
  fprintf(log, "%s\n", word);
  fclose(log);
}

static void wait_for_file(void) {
  enum { PAUSE_MS = 2, MOST_PAUSES = 30000 };
  for (int i = 0; i < MOST_PAUSES && access(getenv("LATE_GPU"), F_OK) != 0; i++)
    poll(NULL, 0, PAUSE_MS);
}

gconv_status __wrap_gconv_device_open_begin(const char *name, int threads, gconv_device_opening **opening) {
  (void)name;
  return __real_gconv_device_open_begin("cpu", threads, opening);
}

gconv_status __wrap_gconv_device_open_end(gconv_device_opening *opening, gconv_device **device) {
  gconv_device *opened = NULL;
  GCONV_TRY(__real_gconv_device_open_end(opening, &opened));
  wait_for_file();
  if (getenv("LATE_GPU_FAILS")) {
    gconv_device_close(opened);
    return gconv_fail(GCONV_UNSUPPORTED, "the GPU is too late");
  }
  snprintf(opened->info.name, sizeof opened->info.name, "cuda:0");
  *device = opened;
  return GCONV_OK;
}

const char *__wrap_gconv_device_decoder_obstacle(void) {
  return NULL;
}

gconv_status __wrap_gconv_device_start_decoder(gconv_device *device) {
  (void)device;
  note("start");
  return GCONV_OK;
}

gconv_status __wrap_gconv_plan_execute_jpeg_rows(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *header,
                                                 const gconv_taker *taker, gconv_timings *timings) {
  (void)plan, (void)jpeg, (void)size, (void)header, (void)taker, (void)timings;
  note("rows");
  return gconv_fail(GCONV_BAD_FILE, "the GPU refuses it");
}

gconv_status __wrap_gconv_plan_execute_jpeg(gconv_plan *plan, const void *jpeg, size_t size, const gconv_image *header,
                                            gconv_image *outputs, gconv_timings *timings) {
  (void)plan, (void)jpeg, (void)size, (void)header, (void)outputs, (void)timings;
  note("whole");
  return gconv_fail(GCONV_BAD_FILE, "the GPU refuses it");
}
