/* SPDX-License-Identifier: MIT */
/* Describes the CPU, and measures how fast it is. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/processors.h"
#include "device/device.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static void read_model(char *model, size_t size) {
  snprintf(model, size, "CPU");
  FILE *file = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
    if (!colon)
      continue;
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(model, size, "%s", colon + 1 + (colon[1] == ' '));
    break;
  }
  if (file)
    fclose(file);
}

static bool describe(int index, gconv_device_info *info) {
  if (index > 0)
    return false;
  *info = (gconv_device_info){.name = "cpu", .usable = true};
  char model[64];
  read_model(model, sizeof model);
  int processors = gconv_processor_count();
  snprintf(info->description, sizeof info->description, "%s, %s, %d %s", model, gconv_isa_name(gconv_cpu_isa()), processors,
           processors == 1 ? "thread" : "threads");
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  info->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
  return true;
}

/* The machine is one thread of the reference CPU, a Zen 4 at 3.7 GHz with AVX2. If the choice of `auto` depended on the
 * threads or instructions of a CPU, so would results. */
static gconv_status open_cpu(gconv_device *device) {
  device->machine = (gconv_machine){.fma_per_ms = 5.5e7, .bytes_per_ms = 1.2e7, .launch_ms = 0.02, .units = 1};
  return GCONV_OK;
}

/* ---- The machine ---- */

/* A copy of `bytes` bytes. Threads take its parts in turn. */
typedef struct copy_job {
  uint8_t *to;
  const uint8_t *from;
  size_t bytes;
} copy_job;

enum { COPY_PART = 1 << 20 };

static void copy_part(void *context, size_t turn, int thread) {
  const copy_job *job = context;
  size_t begin = turn * COPY_PART, size = job->bytes - begin < COPY_PART ? job->bytes - begin : COPY_PART;
  memcpy(job->to + begin, job->from + begin, size);
}

static gconv_status measure_copy(gconv_device *device, size_t bytes, int runs, double *milliseconds) {
  GCONV_FREED void *from = NULL;
  GCONV_FREED void *to = NULL;
  GCONV_TRY(gconv_allocate(bytes, "a copy", &from));
  GCONV_TRY(gconv_allocate(bytes, "a copy", &to));
  memset(from, 1, bytes);
  copy_job job = {to, from, bytes};
  for (int i = -1; i < runs; i++) {
    double start = gconv_now_ms();
    gconv_threads_run(device->threads, (bytes + COPY_PART - 1) / COPY_PART, copy_part, &job);
    if (i >= 0)
      milliseconds[i] = gconv_now_ms() - start;
  }
  return GCONV_OK;
}

/* 12 chains of vectors keep two units busy whose latency is 4 or 5 cycles, and leave registers for two constants. */
enum { CHAINS_AVX512 = 12 * 16, CHAINS = 12 * 8 };
typedef struct spin {
  int64_t turns;
  _Alignas(64) float sums[CHAINS_AVX512];
} spin;

GCONV_INLINE void spin_chains(spin *work, int chains) {
  float sums[CHAINS_AVX512];
  memcpy(sums, work->sums, sizeof sums);
  for (int64_t turn = 0; turn < work->turns; turn++)
    for (int i = 0; i < chains; i++)
      sums[i] = fmaf(sums[i], 0.999f, 0.001f);
  memcpy(work->sums, sums, sizeof sums);
}
GCONV_VECTOR_LOOP(spin_wide, (spin * work), (work)) {
  spin_chains(work, CHAINS_AVX512);
}
GCONV_VECTOR_LOOP(spin_narrow, (spin * work), (work)) {
  spin_chains(work, CHAINS);
}

/* Runs the chains of a thread. It stores a sum of all in a volatile variable, so that the compiler keeps the loop. */
static void spin_turn(void *context, size_t turn, int thread) {
  const spin *work = context;
  spin own = *work;
  own.sums[turn % CHAINS] += (float)thread;
  if (gconv_cpu_isa() == GCONV_ISA_AVX512)
    spin_wide(&own);
  else
    spin_narrow(&own);
  float sum = 0;
  for (int i = 0; i < CHAINS_AVX512; i++)
    sum += own.sums[i];
  volatile float kept = sum;
  (void)kept;
}

static double time_spin(gconv_device *device, spin *work) {
  double start = gconv_now_ms();
  gconv_threads_run(device->threads, (size_t)gconv_threads_count(device->threads), spin_turn, work);
  return gconv_now_ms() - start;
}

/* Doubles the turns until they take some milliseconds. Without optimisation, a hundredth of the turns suffices. */
static gconv_status measure_fma(gconv_device *device, double *count, double *milliseconds) {
  const int runs = 8; /* during the first run, wide units wake up */
  const double enough_ms = 2;
  spin work = {.turns = 5000};
  do {
    work.turns *= 2;
    *milliseconds = time_spin(device, &work);
  } while (*milliseconds < enough_ms);
  for (int i = 1; i < runs; i++)
    *milliseconds = fmin(*milliseconds, time_spin(device, &work));
  int chains = gconv_cpu_isa() == GCONV_ISA_AVX512 ? CHAINS_AVX512 : CHAINS;
  *count = (double)work.turns * chains * gconv_threads_count(device->threads);
  return GCONV_OK;
}

static void do_nothing(void *context, size_t turn, int thread) {}

static gconv_status measure_launch(gconv_device *device, double *milliseconds) {
  size_t threads = (size_t)gconv_threads_count(device->threads);
  *milliseconds = HUGE_VAL;
  for (int i = 0; i < 20; i++) {
    double start = gconv_now_ms();
    gconv_threads_run(device->threads, 4 * threads, do_nothing, NULL);
    *milliseconds = fmin(*milliseconds, gconv_now_ms() - start);
  }
  return GCONV_OK;
}

const gconv_device_type gconv_device_type_cpu = {
    .name = "cpu",
    .describe = describe,
    .open = open_cpu,
    .measure_copy = measure_copy,
    .measure_fma = measure_fma,
    .measure_launch = measure_launch,
};
