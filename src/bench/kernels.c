/* SPDX-License-Identifier: MIT */
#include "bench/kernels.h"
#include "base/clock.h"
#include "base/library.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Occupancy ---- */

/* Registers are given to warps in units of 256, by each of four schedulers from a quarter of them. */
double gconv_occupancy(const gconv_occupancy_limits *limits, int32_t registers, int32_t threads, int32_t shared) {
  enum { LANES = 32, UNIT = 256, SCHEDULERS = 4 };
  const int32_t warps = (threads + LANES - 1) / LANES, most = limits->threads / LANES;
  const int32_t of_warp = (registers * LANES + UNIT - 1) / UNIT * UNIT;
  const int32_t by_registers = of_warp > 0 ? limits->registers / SCHEDULERS / of_warp * SCHEDULERS / warps : limits->blocks;
  const int32_t by_shared = limits->shared / (shared + limits->reserved > 0 ? shared + limits->reserved : 1);
  int32_t blocks = most / warps < limits->blocks ? most / warps : limits->blocks;
  blocks = by_registers < blocks ? by_registers : blocks;
  blocks = by_shared < blocks ? by_shared : blocks;
  return (double)(blocks * warps) / most;
}

/* ---- Records of kernels ---- */

/* The first members of CUPTI's record of a kernel, which have been the same since CUDA 9. */
typedef struct record {
  uint32_t kind;
  uint8_t caches[2];
  uint16_t registers;
  uint32_t partitions[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], fixed, dynamic; /* fixed, dynamic: bytes of shared memory */
  uint32_t local[2], correlation;
  int64_t grid_id;
  const char *name;
} record;

enum { KERNELS = 10, BUFFER_BYTES = 1 << 20, FLUSH_FORCED = 1, ALIGNMENT = 8 };

static struct {
  int (*register_callbacks)(void (*request)(uint8_t **, size_t *, size_t *),
                            void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t));
  int (*enable)(int kind);
  int (*disable)(int kind);
  int (*flush)(uint32_t flag);
  int (*next)(uint8_t *buffer, size_t valid, void **record);
} activity;
static const gconv_symbol activity_symbols[] = {{"cuptiActivityRegisterCallbacks", &activity.register_callbacks},
                                                {"cuptiActivityEnable", &activity.enable},
                                                {"cuptiActivityDisable", &activity.disable},
                                                {"cuptiActivityFlushAll", &activity.flush},
                                                {"cuptiActivityGetNextRecord", &activity.next},
                                                {NULL, NULL}};
static const char *const activity_files[] = {"libcupti.so.13", "libcupti.so.12", "/usr/local/cuda/lib64/libcupti.so",
                                             "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", NULL};
static gconv_library activity_library = {activity_files, activity_symbols, "", 0};

/* CUPTI gives its callbacks no pointer of ours. One piece of work is measured at a time. */
static gconv_kernel_launch longest;

static void request(uint8_t **buffer, size_t *size, size_t *most) {
  *buffer = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
  *size = *buffer ? BUFFER_BYTES : 0;
  *most = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  void *at = NULL;
  while (activity.next(buffer, valid, &at) == 0) {
    const record *kernel = at;
    const double ms = (double)(kernel->end - kernel->start) * 1e-6;
    if (kernel->kind != KERNELS || ms <= longest.ms)
      continue;
    longest = (gconv_kernel_launch){kernel->registers, kernel->block[0] * kernel->block[1] * kernel->block[2],
                                    kernel->fixed + kernel->dynamic, ms, ""};
    snprintf(longest.name, sizeof longest.name, "%s", kernel->name ? kernel->name : "");
  }
  free(buffer);
}

gconv_status gconv_kernel_longest(gconv_status (*work)(void *user), void *user, gconv_kernel_launch *launch) {
  longest = (gconv_kernel_launch){.ms = 0};
  if (gconv_library_load(&activity_library) || activity.register_callbacks(request, complete) != 0 ||
      activity.enable(KERNELS) != 0)
    return gconv_fail(GCONV_UNSUPPORTED, "CUPTI keeps no records of kernels here");
  const gconv_status status = work(user);
  activity.flush(FLUSH_FORCED);
  activity.disable(KERNELS);
  GCONV_TRY(status);
  if (longest.ms == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "CUPTI has no record of a kernel");
  *launch = longest;
  return GCONV_OK;
}

/* ---- Energy ---- */

static struct {
  int (*init)(void);
  int (*find)(const char *bus, void **device);
  int (*energy)(void *device, unsigned long long *millijoules);
} nvml;
static const gconv_symbol nvml_symbols[] = {{"nvmlInit_v2", &nvml.init},
                                            {"nvmlDeviceGetHandleByPciBusId_v2", &nvml.find},
                                            {"nvmlDeviceGetTotalEnergyConsumption", &nvml.energy},
                                            {NULL, NULL}};
static const char *const nvml_files[] = {"libnvidia-ml.so.1", NULL};
static gconv_library nvml_library = {nvml_files, nvml_symbols, "", 0};

gconv_status gconv_kernel_energy(const char *bus, gconv_status (*work)(void *user), void *user, double *joules) {
  const double least_ms = 400; /* the counter is renewed some ten times a second */
  void *device = NULL;
  unsigned long long before = 0, after = 0;
  *joules = NAN;
  if (gconv_library_load(&nvml_library) || nvml.init() != 0 || nvml.find(bus, &device) != 0 ||
      nvml.energy(device, &before) != 0)
    return GCONV_OK;
  const double begin = gconv_now_ms();
  int64_t calls = 0;
  do {
    GCONV_TRY(work(user));
    calls++;
  } while (gconv_now_ms() - begin < least_ms);
  if (nvml.energy(device, &after) == 0 && after > before)
    *joules = (double)(after - before) * 1e-3 / (double)calls;
  return GCONV_OK;
}
