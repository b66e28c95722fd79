/* SPDX-License-Identifier: MIT */
#include "bench/kernels.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Occupancy ---- */

/* Each of four schedulers has a quarter of the registers, and gives them to warps in units of 256. */
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

/* It is global because CUPTI passes its callbacks no pointer of the caller. One piece of work is measured at a time. */
static struct {
  gconv_kernel_times *kernels;
  size_t count;
  bool failed; /* there was no memory */
} seen;

static void request(uint8_t **buffer, size_t *size, size_t *most) {
  *buffer = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
  *size = *buffer ? BUFFER_BYTES : 0;
  *most = 0;
}

/* Writes the identifiers in a mangled name: the name of the function, then the names in the arguments of its template. */
static void read_name(const char *mangled, char *name, size_t size) {
  size_t used = 0;
  int depth = 0; /* of the arguments */
  bool named = false;
  snprintf(name, size, "%s", mangled);
  for (const char *at = strncmp(mangled, "_Z", 2) == 0 ? mangled + 2 : ""; *at && !(named && depth == 0); at++) {
    char *identifier = (char *)at;
    const size_t length = *at >= '1' && *at <= '9' ? strtoul(at, &identifier, 10) : 0;
    if (length > 0) {
      if (length > strlen(identifier))
        return;
      at = identifier + length - 1;
      if (strncmp(identifier, "_GLOBAL_", 8) != 0 && used < size)
        used += (size_t)snprintf(name + used, size - used, "%s%.*s", used > 0 ? " " : "", (int)length, identifier);
      const bool ends = used > 0 && depth == 0 && !(at[1] >= '1' && at[1] <= '9');
      named = named || ends;
      depth += ends && at[1] == 'I'; /* a template */
      at += ends && at[1] == 'I';
    } else if (*at == 'L' || *at == 'S' || *at == 'T') { /* a literal, or what stood before */
      const char end = *at == 'L' ? 'E' : '_';
      while (at[1] && *at != end)
        at++;
    } else {
      depth += !named ? 0 : *at == 'I' || *at == 'N' || *at == 'J' ? 1 : *at == 'E' ? -1 : 0;
    }
  }
}

static void add_launch(const record *launched) {
  gconv_kernel_launch launch = {launched->registers, launched->block[0] * launched->block[1] * launched->block[2],
                                launched->fixed + launched->dynamic, (double)(launched->end - launched->start) * 1e-6, ""};
  read_name(launched->name ? launched->name : "", launch.name, sizeof launch.name);
  size_t at = 0;
  while (at < seen.count && strcmp(seen.kernels[at].longest.name, launch.name) != 0)
    at++;
  if (at == seen.count) {
    gconv_kernel_times *grown = gconv_grown(seen.kernels, seen.count, sizeof *grown);
    seen.failed = seen.failed || !grown;
    if (!grown)
      return;
    seen.kernels = grown;
    seen.kernels[seen.count++] = (gconv_kernel_times){launch, 0, 0, 0};
  }
  gconv_kernel_times *kernel = &seen.kernels[at];
  kernel->launches++;
  kernel->blocks += (int64_t)launched->grid[0] * launched->grid[1] * launched->grid[2];
  kernel->ms += launch.ms;
  if (launch.ms > kernel->longest.ms)
    kernel->longest = launch;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  void *at = NULL;
  while (activity.next(buffer, valid, &at) == 0)
    if (((const record *)at)->kind == KERNELS)
      add_launch(at);
  free(buffer);
}

gconv_status gconv_kernels_begin(void) {
  const char *trouble = gconv_library_load(&activity_library);
  if (trouble)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "it needs NVIDIA's library CUPTI: %s. It is in the CUDA toolkit, and in the Python package "
                      "nvidia-cuda-cupti; LD_LIBRARY_PATH may name its folder",
                      trouble);
  if (activity.register_callbacks(request, complete) != 0 || activity.enable(KERNELS) != 0)
    return gconv_fail(GCONV_UNSUPPORTED,
                      "CUPTI keeps no records of kernels on this machine: gconv devices lists the GPUs that can be used");
  return GCONV_OK;
}

static int by_time(const void *one, const void *other) {
  const double a = ((const gconv_kernel_times *)one)->ms, b = ((const gconv_kernel_times *)other)->ms;
  return (a < b) - (a > b);
}

gconv_status gconv_kernels_end(gconv_kernel_times **times, size_t *count) {
  activity.flush(FLUSH_FORCED);
  activity.disable(KERNELS);
  *times = seen.kernels;
  *count = seen.count;
  const bool failed = seen.failed;
  memset(&seen, 0, sizeof seen);
  if (failed)
    return gconv_no_memory();
  if (*count == 0)
    return gconv_fail(GCONV_UNSUPPORTED, "CUPTI has no record of a kernel");
  qsort(*times, *count, sizeof **times, by_time);
  return GCONV_OK;
}

gconv_status gconv_kernel_longest(gconv_status (*work)(void *user), void *user, gconv_kernel_launch *launch) {
  GCONV_FREED gconv_kernel_times *times = NULL;
  size_t count = 0;
  GCONV_TRY(gconv_kernels_begin());
  const gconv_status status = work(user), ended = gconv_kernels_end(&times, &count);
  GCONV_TRY(status);
  GCONV_TRY(ended);
  for (size_t i = 0; i < count; i++)
    if (i == 0 || times[i].longest.ms > launch->ms)
      *launch = times[i].longest;
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

/* Runs the work for at least `least_ms`, and from then on until the counter is renewed, which happens some ten times a
 * second. Looks at the counter seldom, as that takes time. Sets *calls, and *millijoules to what the counter shows. */
static gconv_status run_until_renewed(void *device, gconv_status (*work)(void *user), void *user, double least_ms,
                                      int64_t *calls, unsigned long long *millijoules) {
  const double begin = gconv_now_ms(), between_ms = 5, longest_ms = least_ms + 300;
  unsigned long long last = *millijoules;
  double now = begin, looked = begin;
  for (*calls = 0; now - begin < least_ms || (*millijoules == last && now - begin < longest_ms); ++*calls) {
    GCONV_TRY(work(user));
    now = gconv_now_ms();
    if (now - looked < between_ms)
      continue;
    last = *millijoules;
    looked = now;
    if (nvml.energy(device, millijoules) != 0)
      return gconv_fail(GCONV_UNSUPPORTED, "NVML does not tell the energy of the GPU");
  }
  return GCONV_OK;
}

/* Begins and ends when the counter has just been renewed. */
gconv_status gconv_kernel_energy(const char *bus, gconv_status (*work)(void *user), void *user, double *joules) {
  void *device = NULL;
  unsigned long long before = 0, after;
  int64_t calls;
  *joules = NAN;
  if (gconv_library_load(&nvml_library) || nvml.init() != 0 || nvml.find(bus, &device) != 0 ||
      nvml.energy(device, &before) != 0)
    return GCONV_OK;
  GCONV_TRY(run_until_renewed(device, work, user, 0, &calls, &before));
  after = before;
  GCONV_TRY(run_until_renewed(device, work, user, 1000, &calls, &after));
  if (after > before)
    *joules = (double)(after - before) * 1e-3 / (double)calls;
  return GCONV_OK;
}
