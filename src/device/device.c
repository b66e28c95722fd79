/* SPDX-License-Identifier: MIT */
#include "device/device.h"
#include "base/arguments.h"
#include "base/clock.h"
#include "device/decoder.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const gconv_device_type *const types[] = {
    &gconv_device_type_cpu,
#ifdef GCONV_WITH_CUDA
    &gconv_device_type_cuda,
#endif
};
enum { TYPES = sizeof types / sizeof types[0] };

bool gconv_device_at(size_t index, gconv_device_info *info) {
  if (!info)
    return false;
  for (size_t t = 0; t < TYPES; t++)
    for (int i = 0; types[t]->describe(i, info); i++)
      if (index-- == 0)
        return true;
#ifndef GCONV_WITH_CUDA
  if (index == 0) {
    *info = (gconv_device_info){.name = "cuda",
                                .reason = "this gconv was built without CUDA: configure it with -DGCONV_CUDA=ON"};
    return true;
  }
#endif
  return false;
}

/* Returns the type of a device, and sets *index to its number: "cuda:1" is number 1 of the type "cuda", and "cuda" is number
 * 0. Returns NULL for other names. */
static const gconv_device_type *parse_name(const char *name, int *index) {
  for (size_t t = 0; t < TYPES; t++) {
    size_t length = strlen(types[t]->name);
    if (strncmp(name, types[t]->name, length) != 0)
      continue;
    *index = 0;
    if (name[length] == '\0')
      return types[t];
    char *end;
    long number = strtol(name + length + 1, &end, 10);
    if (name[length] == ':' && name[length + 1] >= '0' && name[length + 1] <= '9' && *end == '\0' && number <= INT_MAX) {
      *index = (int)number;
      return types[t];
    }
  }
  return NULL;
}

/* Returns the first usable GPU. If there is none, returns the CPU, with a remark on why each GPU is not used. */
static const gconv_device_type *choose(int *index, gconv_device_info *info) {
#ifdef GCONV_WITH_CUDA
  for (*index = 0; gconv_device_type_cuda.describe(*index, info); ++*index)
    if (info->usable)
      return &gconv_device_type_cuda;
    else
      gconv_remark("%s is not used: %s", info->name, info->reason);
#endif
  *index = 0;
  gconv_device_type_cpu.describe(0, info);
  return &gconv_device_type_cpu;
}

static gconv_status find(const char *name, const gconv_device_type **type, int *index, gconv_device_info *info) {
  if (strcmp(name, "auto") == 0) {
    *type = choose(index, info);
    return GCONV_OK;
  }
  *type = parse_name(name, index);
#ifndef GCONV_WITH_CUDA
  if (strncmp(name, "cuda", 4) == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "device %s: this gconv was built without CUDA; use the device cpu or auto", name);
#endif
  if (!*type)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there is no device called %s: the devices are auto, cpu, cuda and cuda:N", name);
  if (!(*type)->describe(*index, info))
    return gconv_fail(GCONV_UNSUPPORTED, "device %s: this machine has no device of this number", name);
  if (!info->usable)
    return gconv_fail(GCONV_UNSUPPORTED, "device %s cannot be used: %s", name, info->reason);
  return GCONV_OK;
}

gconv_status gconv_device_open(const char *name, int threads, gconv_device **result) {
  double start = gconv_now_ms();
  GCONV_NEED(name);
  GCONV_NEED_AS(result, "device");
  gconv_device *device;
  GCONV_NEW(device, 1, "no memory for a device");
  gconv_status status = find(name, &device->type, &device->index, &device->info);
  GCONV_THEN(status, gconv_threads_create(threads, &device->threads));
  GCONV_THEN(status, device->type->open(device));
  if (status != GCONV_OK && device->threads && strcmp(name, "auto") == 0 && device->type != &gconv_device_type_cpu) {
    gconv_remark("%s is not used: %s", device->info.name, gconv_last_error());
    status = find("cpu", &device->type, &device->index, &device->info);
    device->machine = (gconv_machine){0};
    GCONV_THEN(status, device->type->open(device));
  }
  if (status != GCONV_OK) {
    gconv_threads_free(device->threads);
    free(device);
    return status;
  }
  pthread_mutex_init(&device->decoder_lock, NULL);
  device->info.start_ms = gconv_now_ms() - start;
  *result = device;
  return GCONV_OK;
}

bool gconv_gpu_may_be_there(void) {
#ifdef GCONV_WITH_CUDA
  static const char *const nodes[] = {"/dev/nvidiactl", "/dev/dxg", "/dev/nvmap"}; /* of the driver, WSL, Tegra */
  for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
    if (access(nodes[i], F_OK) == 0)
      return true;
#endif
  return false;
}

bool gconv_device_is_gpu_open(void) {
#ifdef GCONV_WITH_CUDA
  return gconv_cuda_is_open();
#else
  return false;
#endif
}

void gconv_device_close(gconv_device *device) {
  if (!device || gconv_threads_inherited(device->threads)) /* a child of fork() has no GPU, and no threads to end */
    return;
  if (device->type->close)
    device->type->close(device);
  pthread_mutex_destroy(&device->decoder_lock);
  gconv_threads_free(device->threads);
  free(device);
}

const gconv_device_info *gconv_device_get_info(const gconv_device *device) {
  return device ? &device->info : NULL;
}

gconv_threads *gconv_device_threads(gconv_device *device) {
  return device ? device->threads : NULL;
}

const gconv_machine *gconv_device_get_machine(const gconv_device *device) {
  return device ? &device->machine : NULL;
}

/* ---- Measuring ---- */

static gconv_status measure_bandwidth(gconv_device *device, double *bytes_per_ms) {
  const size_t bytes = (size_t)1 << 28; /* several times the caches */
  double milliseconds[9], least = HUGE_VAL;
  GCONV_TRY(device->type->measure_copy(device, bytes, 9, milliseconds));
  for (int i = 0; i < 9; i++)
    least = fmin(least, milliseconds[i]);
  *bytes_per_ms = 2 * (double)bytes / least;
  return GCONV_OK;
}

gconv_status gconv_device_measure(gconv_device *device, gconv_machine *machine) {
  GCONV_NEED(device, machine);
  gconv_machine measured = device->machine;
  double count, milliseconds;
  GCONV_TRY(measure_bandwidth(device, &measured.bytes_per_ms));
  GCONV_TRY(device->type->measure_fma(device, &count, &milliseconds));
  GCONV_TRY(device->type->measure_launch(device, &measured.launch_ms));
  measured.fma_per_ms = count / milliseconds;
  *machine = measured;
  return GCONV_OK;
}
