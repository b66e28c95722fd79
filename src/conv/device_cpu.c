/* SPDX-License-Identifier: MIT */
/* The CPU: strips of output rows, spread over the threads. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/processors.h"
#include "conv/device.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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

double gconv_threads_worth(int threads) {
  const int alone = 4;
  return threads <= alone ? threads : alone + 0.65 * (threads - alone);
}

/* One thread of the reference CPU: a Zen 4 at 3.7 GHz, with AVX2. Which algorithms auto takes must not depend on how many
 * threads there are, or on what else a CPU has, as results would. */
static gconv_status open_cpu(gconv_device *device) {
  device->machine = (gconv_machine){.fma_per_ms = 5.5e7, .bytes_per_ms = 1.2e7, .launch_ms = 0.02, .units = 1};
  return GCONV_OK;
}

static void close_cpu(gconv_device *device) {
  (void)device;
}

/* Bytes between the workspaces of two threads: what the processor fetches ahead of one that walks down columns lies rows
 * further on, and must not be what another is writing, which made fft up to 7 times as slow. */
enum { THREAD_GAP = 512 << 10 };

/* What executing the passes of a plan needs. */
typedef struct cpu_run {
  gconv_threads *threads;
  const gconv_pass *passes;
  size_t count;
  uint8_t *workspace;     /* of all threads */
  size_t workspace_bytes; /* of each */
  gconv_target *targets;  /* room for the outputs of a pass */
} cpu_run;

static void release(void *memory) {
  cpu_run *run = memory;
  if (!run)
    return;
  gconv_release(run->workspace);
  free(run->targets);
  free(run);
}

static gconv_status prepare(gconv_device *device, const gconv_pass *passes, size_t count, const gconv_image *outputs,
                            void **result) {
  (void)outputs; /* they are written where they are */
  cpu_run *run = calloc(1, sizeof *run);
  if (!run)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  run->threads = device->threads;
  run->passes = passes;
  run->count = count;
  size_t filters = 0;
  for (size_t i = 0; i < count; i++) {
    if (passes[i].workspace_bytes > run->workspace_bytes)
      run->workspace_bytes = passes[i].workspace_bytes;
    if ((size_t)passes[i].problem.filters > filters)
      filters = (size_t)passes[i].problem.filters;
  }
  if (gconv_threads_count(device->threads) > 1)
    run->workspace_bytes += THREAD_GAP;
  run->workspace_bytes = (run->workspace_bytes + GCONV_ALIGNMENT - 1) / GCONV_ALIGNMENT * GCONV_ALIGNMENT;
  run->targets = calloc(filters, sizeof *run->targets);
  size_t bytes;
  gconv_multiply(run->workspace_bytes, (size_t)gconv_threads_count(device->threads), &bytes);
  void *workspace = NULL;
  gconv_status status = run->targets ? gconv_allocate_workspace(bytes, "the workspace", &workspace)
                                     : gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  if (status != GCONV_OK) {
    release(run);
    return status;
  }
  run->workspace = workspace;
  *result = run;
  return GCONV_OK;
}

/* Output rows of a pass cut into turns: strips of every plane of every image. */
typedef struct strip_job {
  const cpu_run *run;
  const gconv_algorithm *algorithm;
  gconv_execution execution;
  int32_t first, end;  /* output rows that are wanted */
  int32_t rows;        /* of a strip */
  size_t strips;       /* of a plane */
  atomic_int *failure; /* the first status that was not GCONV_OK */
  atomic_llong *busy;  /* nanoseconds of all threads */
} strip_job;

static void execute_strip(void *context, size_t turn, int thread) {
  const strip_job *strips = context;
  gconv_execution execution = strips->execution;
  const gconv_problem *problem = execution.problem;
  size_t plane = turn / strips->strips, strip = turn % strips->strips;
  execution.workspace = strips->run->workspace + (size_t)thread * strips->run->workspace_bytes;
  execution.image = (int32_t)(plane / (size_t)problem->planes);
  execution.plane = (int32_t)(plane % (size_t)problem->planes);
  execution.first_row = strips->first + (int32_t)strip * strips->rows;
  execution.end_row = strips->end - execution.first_row < strips->rows ? strips->end : execution.first_row + strips->rows;
  double start = gconv_now_ms();
  gconv_status status = strips->algorithm->execute(&execution);
  atomic_fetch_add(strips->busy, (long long)((gconv_now_ms() - start) * 1e6));
  int none = GCONV_OK;
  if (status != GCONV_OK)
    atomic_compare_exchange_strong(strips->failure, &none, (int)status);
}

/* Rows of a strip of `count` output rows: enough strips to keep all threads busy to the end, yet so high that the rows above
 * a strip, which it loads again, are few beside its own. */
static int32_t strip_rows(const gconv_problem *problem, int32_t count, int threads) {
  int64_t planes = (int64_t)problem->images * problem->planes, wanted = threads == 1 ? 1 : 4 * (int64_t)threads;
  int64_t per_plane = (wanted + planes - 1) / planes, rows = (count + per_plane - 1) / per_plane;
  int64_t least = (4 * ((int64_t)(problem->rows - 1) * problem->dilation_y + 1)) / problem->stride_y;
  if (least > count / threads)
    least = count / threads;
  rows = rows > least ? rows : least;
  return (int32_t)(rows < 1 ? 1 : rows);
}

/* The same for an algorithm that makes `step` rows at a time, and loads what these need whatever the strip. */
static int32_t step_rows(int32_t step, int32_t count, int threads) {
  int32_t steps = count / step / (8 * threads);
  return step * (steps < 1 ? 1 : steps);
}

static void execute_pass(const cpu_run *run, const gconv_pass *pass, const gconv_image *in, const gconv_image *outputs,
                         int32_t first, int32_t end, atomic_int *failure, atomic_llong *busy) {
  const gconv_problem *problem = &pass->problem;
  strip_job strips = {
      .run = run, .algorithm = pass->algorithm, .first = first, .end = end, .failure = failure, .busy = busy};
  gconv_bind(pass, in, outputs + pass->first_output, run->targets, &strips.execution);
  strips.rows = pass->algorithm->row_step
                    ? step_rows(pass->algorithm->row_step(problem), end - first, gconv_threads_count(run->threads))
                    : strip_rows(problem, end - first, gconv_threads_count(run->threads));
  strips.strips = (size_t)((end - first - 1) / strips.rows + 1);
  size_t turns = strips.strips * (size_t)problem->images * (size_t)problem->planes;
  gconv_threads_run(run->threads, turns, execute_strip, &strips);
}

static gconv_status run_passes(const cpu_run *run, const gconv_image *in, const gconv_image *outputs, int32_t first,
                               int32_t end, atomic_llong *busy) {
  atomic_int failure = GCONV_OK;
  for (size_t i = 0; i < run->count; i++) {
    int32_t height = run->passes[i].problem.out_height;
    execute_pass(run, &run->passes[i], in, outputs, first, end < height ? end : height, &failure, busy);
  }
  int status = atomic_load(&failure);
  return status == GCONV_OK ? GCONV_OK : gconv_fail((gconv_status)status, "the convolution failed on the CPU");
}

/* The threads may have other work meanwhile: what counts is what they did here, as if all had. */
static gconv_status execute_rows(void *memory, const gconv_image *in, gconv_image *outputs, int32_t first, int32_t end,
                                 gconv_timings *timings) {
  const cpu_run *run = memory;
  atomic_llong busy = 0;
  gconv_status status = run_passes(run, in, outputs, first, end, &busy);
  timings->kernel_ms += (double)atomic_load(&busy) * 1e-6 / gconv_threads_count(run->threads);
  return status;
}

static gconv_status execute(void *memory, const gconv_image *in, gconv_image *outputs, gconv_timings *timings) {
  double start = gconv_now_ms();
  atomic_llong busy = 0;
  gconv_status status = run_passes(memory, in, outputs, 0, INT32_MAX, &busy);
  timings->kernel_ms += gconv_now_ms() - start;
  return status;
}

static gconv_status measure(void *memory, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds) {
  for (int i = -1; i < runs; i++) { /* the first warms up */
    gconv_timings timings = {0};
    GCONV_TRY(execute(memory, in, outputs, &timings));
    if (i >= 0)
      milliseconds[i] = timings.kernel_ms;
  }
  return GCONV_OK;
}

/* A copy of `bytes`, cut into parts that threads take in turn. */
typedef struct copy_job {
  uint8_t *to;
  const uint8_t *from;
  size_t bytes;
} copy_job;

enum { COPY_PART = 1 << 20 };

static void copy_part(void *context, size_t turn, int thread) {
  const copy_job *job = context;
  (void)thread;
  size_t begin = turn * COPY_PART, size = job->bytes - begin < COPY_PART ? job->bytes - begin : COPY_PART;
  memcpy(job->to + begin, job->from + begin, size);
}

static gconv_status measure_copy(gconv_device *device, size_t bytes, int runs, double *milliseconds) {
  void *from = NULL, *to = NULL;
  gconv_status status = gconv_allocate(bytes, "a copy", &from);
  if (status == GCONV_OK)
    status = gconv_allocate(bytes, "a copy", &to);
  if (status == GCONV_OK) {
    memset(from, 1, bytes);
    copy_job job = {to, from, bytes};
    for (int i = -1; i < runs; i++) {
      double start = gconv_now_ms();
      gconv_threads_run(device->threads, (bytes + COPY_PART - 1) / COPY_PART, copy_part, &job);
      if (i >= 0)
        milliseconds[i] = gconv_now_ms() - start;
    }
  }
  gconv_release(from);
  gconv_release(to);
  return status;
}

/* ---- The machine ---- */

/* 12 chains of vectors keep two units of a latency of 4 or 5 cycles busy, and leave registers for two constants. */
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
GCONV_INLINE void spin_wide_body(spin *work) {
  spin_chains(work, CHAINS_AVX512);
}
GCONV_VECTORIZED(spin_wide, (spin * work), (work))
GCONV_INLINE void spin_narrow_body(spin *work) {
  spin_chains(work, CHAINS);
}
GCONV_VECTORIZED(spin_narrow, (spin * work), (work))

/* What becomes of the sums goes where the compiler cannot know that nobody reads it. */
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

/* Turns are doubled until they take some ms: a build without optimization does a hundredth of them in that time. */
static gconv_status measure_fma(gconv_device *device, double *count, double *milliseconds) {
  const int runs = 8; /* the first wake the wide units */
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

static void do_nothing(void *context, size_t turn, int thread) {
  (void)context;
  (void)turn;
  (void)thread;
}

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
    .close = close_cpu,
    .prepare = prepare,
    .execute = execute,
    .execute_rows = execute_rows,
    .release = release,
    .measure = measure,
    .measure_copy = measure_copy,
    .measure_fma = measure_fma,
    .measure_launch = measure_launch,
};
