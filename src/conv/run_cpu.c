/* SPDX-License-Identifier: MIT */
/* Executes passes on the CPU: threads take strips of output rows. */
#include "base/clock.h"
#include "base/memory.h"
#include "conv/run.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Bytes between the workspaces of two threads. The processor prefetches data beyond the rows that a thread reads. If another
 * thread writes there, fft takes up to 7 times as long. */
enum { THREAD_GAP = 512 << 10 };

/* The memory for executing the passes of a plan. */
typedef struct cpu_run {
  gconv_threads *threads;
  const gconv_pass *passes;
  size_t count;
  uint8_t *workspace;     /* the workspaces of all threads */
  size_t workspace_bytes; /* bytes of a thread's workspace, with the gap */
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
  (void)outputs; /* they are written in place */
  cpu_run *run;
  GCONV_NEW(run, 1, "no memory for a plan");
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

/* The output rows of a pass, cut into turns: each turn is a strip of a plane of an image. */
typedef struct strip_job {
  const cpu_run *run;
  const gconv_algorithm *algorithm;
  gconv_execution execution;
  int32_t first, end;  /* output rows that are wanted */
  int32_t rows;        /* rows of a strip */
  size_t strips;       /* strips of a plane */
  atomic_int *failure; /* the first status that was not GCONV_OK */
  atomic_llong *busy;  /* nanoseconds that all threads worked */
} strip_job;

static void execute_strip(void *context, size_t turn, int thread) {
  const strip_job *strips = context;
  gconv_execution execution = strips->execution;
  const gconv_problem *problem = execution.problem;
  size_t plane = turn / strips->strips, strip = turn % strips->strips;
  execution.exact = strips->algorithm->info.exact;
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

/* Returns the rows of a strip, of `count` output rows. There are about four strips a thread, the same number for each
 * thread. But strips are so high that the further rows under the filter, which a strip loads again, are few beside its own
 * rows. */
static int32_t strip_rows(const gconv_problem *problem, int32_t count, int threads) {
  const int64_t planes = (int64_t)problem->images * problem->planes, wanted = threads == 1 ? 1 : 4 * (int64_t)threads;
  const int64_t most = (wanted + planes - 1) / planes;
  const int64_t least = (4 * ((int64_t)(problem->rows - 1) * problem->dilation_y + 1)) / problem->stride_y; /* rows */
  int64_t strips = count / (least > 0 ? least : 1);
  strips = strips > most ? most : strips > 0 ? strips : 1;
  if (planes % threads != 0)
    strips = (strips < threads ? 1 : strips / threads) * threads;
  return (int32_t)((count + strips - 1) / strips);
}

/* Returns the rows of a strip for an algorithm that makes `step` rows at a time. Strips of any height have the same
 * loads. */
static int32_t step_rows(int32_t step, int32_t count, int threads) {
  int32_t steps = count / step / (8 * threads);
  return step * (steps < 1 ? 1 : steps);
}

/* Returns where row 0 of the image would be, if `part` has its rows from first_row on: row y is at result + y *
 * row_bytes. */
static uint8_t *seen_whole(const void *part, int32_t first_row, int64_t row_bytes) {
  return (uint8_t *)((uintptr_t)part - (uintptr_t)(first_row * row_bytes));
}

static void execute_pass(const cpu_run *run, const gconv_pass *pass, const gconv_image *in, int32_t in_row,
                         const gconv_image *outputs, int32_t first, int32_t end, atomic_int *failure, atomic_llong *busy) {
  const gconv_problem *problem = &pass->problem;
  strip_job strips = {
      .run = run, .algorithm = pass->algorithm, .first = first, .end = end, .failure = failure, .busy = busy};
  gconv_bind(pass, in, outputs + pass->first_output, run->targets, &strips.execution);
  strips.execution.in = seen_whole(strips.execution.in, in_row, strips.execution.in_row);
  for (int32_t k = 0; k < problem->filters; k++)
    run->targets[k].base = seen_whole(run->targets[k].base, first, run->targets[k].row);
  strips.rows = pass->algorithm->row_step
                    ? step_rows(pass->algorithm->row_step(problem), end - first, gconv_threads_count(run->threads))
                    : strip_rows(problem, end - first, gconv_threads_count(run->threads));
  strips.strips = (size_t)((end - first - 1) / strips.rows + 1);
  size_t turns = strips.strips * (size_t)problem->images * (size_t)problem->planes;
  gconv_threads_run(run->threads, turns, execute_strip, &strips);
}

/* Makes output rows first .. end - 1 of all passes, or fewer if a pass has fewer. */
static gconv_status run_passes(const cpu_run *run, const gconv_image *in, int32_t in_row, const gconv_image *outputs,
                               int32_t first, int32_t end, atomic_llong *busy) {
  atomic_int failure = GCONV_OK;
  for (size_t i = 0; i < run->count; i++) {
    int32_t height = run->passes[i].problem.out_height;
    execute_pass(run, &run->passes[i], in, in_row, outputs, first, end < height ? end : height, &failure, busy);
  }
  int status = atomic_load(&failure);
  return status == GCONV_OK ? GCONV_OK : gconv_fail((gconv_status)status, "the convolution failed on the CPU");
}

/* The threads may serve other plans at the same time. So kernel_ms is their time for this plan, divided by their number. */
static gconv_status execute_rows(void *memory, const gconv_image *in, int32_t in_row, gconv_image *outputs, int32_t first,
                                 gconv_timings *timings) {
  const cpu_run *run = memory;
  atomic_llong busy = 0;
  gconv_status status = run_passes(run, in, in_row, outputs, first, first + outputs->height, &busy);
  timings->kernel_ms += (double)atomic_load(&busy) * 1e-6 / gconv_threads_count(run->threads);
  return status;
}

static gconv_status execute(void *memory, const gconv_image *in, gconv_image *outputs, gconv_timings *timings) {
  double start = gconv_now_ms();
  atomic_llong busy = 0;
  gconv_status status = run_passes(memory, in, 0, outputs, 0, INT32_MAX, &busy);
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

const gconv_run_type gconv_run_type_cpu = {
    .prepare = prepare,
    .execute = execute,
    .release = release,
    .measure = measure,
    .execute_rows = execute_rows,
};
