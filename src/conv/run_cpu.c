/* SPDX-License-Identifier: MIT */
/* Executes passes on the CPU: threads take strips of output rows. */
#include "base/clock.h"
#include "base/control.h"
#include "base/memory.h"
#include "conv/run.h"

#include <stdatomic.h>

/* Bytes between the workspaces of two threads. The processor prefetches data beyond the rows that a thread reads. If another
 * thread writes there, fft takes up to 7 times as long. */
enum { THREAD_GAP = 512 << 10 };

/* The memory for executing the passes of a plan. */
typedef struct cpu_run {
  gconv_threads *threads;
  bool alone;                   /* the caller's thread does all work, because sharing it would take longer */
  const gconv_machine *machine; /* of one thread */
  const gconv_pass *passes;
  size_t count;
  uint8_t *workspace;     /* the workspaces of all threads */
  size_t workspace_bytes; /* bytes of a thread's workspace, with the gap */
  gconv_target *targets;  /* room for the outputs of a pass */
  size_t held_bytes;      /* of workspaces, targets and weights */
} cpu_run;

/* Returns whether one thread executes the passes in less time than it takes to wake another thread and wait for it. */
static bool is_short(const cpu_run *run) {
  const double most_ms = 0.02;
  double ms = 0;
  for (size_t i = 0; i < run->count; i++)
    ms += run->passes[i].algorithm->cost(&run->passes[i].problem, run->machine) - run->machine->launch_ms;
  return ms < most_ms;
}

static int threads_of(const cpu_run *run) {
  return run->alone ? 1 : gconv_threads_count(run->threads);
}

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
  (void)outputs; /* strips write them directly */
  cpu_run *run;
  GCONV_NEW(run, 1, "no memory for a plan");
  run->threads = device->threads;
  run->machine = gconv_device_get_machine(device);
  run->passes = passes;
  run->count = count;
  run->alone = is_short(run);
  size_t filters = 0;
  for (size_t i = 0; i < count; i++) {
    if (passes[i].workspace_bytes > run->workspace_bytes)
      run->workspace_bytes = passes[i].workspace_bytes;
    if ((size_t)passes[i].problem.filters > filters)
      filters = (size_t)passes[i].problem.filters;
  }
  if (threads_of(run) > 1)
    run->workspace_bytes += THREAD_GAP;
  run->workspace_bytes = (run->workspace_bytes + GCONV_ALIGNMENT - 1) / GCONV_ALIGNMENT * GCONV_ALIGNMENT;
  run->targets = calloc(filters, sizeof *run->targets);
  size_t bytes;
  gconv_multiply(run->workspace_bytes, (size_t)threads_of(run), &bytes);
  void *workspace = NULL;
  gconv_status status = run->targets ? gconv_allocate_workspace(bytes, "the workspace", &workspace)
                                     : gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  if (status != GCONV_OK) {
    release(run);
    return status;
  }
  run->workspace = workspace;
  run->held_bytes = gconv_held_bytes(run) + gconv_held_bytes(workspace) + gconv_held_bytes(run->targets);
  for (size_t i = 0; i < count; i++)
    run->held_bytes += gconv_held_bytes(passes[i].weights);
  *result = run;
  return GCONV_OK;
}

static size_t held_bytes(const void *memory) {
  return ((const cpu_run *)memory)->held_bytes;
}

/* The state that all passes of an execution share. */
typedef struct execution_state {
  gconv_controlled *control; /* the caller's; NULL: none */
  atomic_size_t strips;      /* strips of the pass that are done */
  size_t pass;
  atomic_int failure; /* the first status that was not GCONV_OK */
  atomic_llong busy;  /* nanoseconds that all threads worked */
} execution_state;

/* The output rows of a pass, cut into turns: each turn is a strip of a plane of an image. */
typedef struct strip_job {
  const cpu_run *run;
  const gconv_algorithm *algorithm;
  gconv_execution execution;
  int32_t first, end; /* output rows that are wanted */
  int32_t rows;       /* rows of a strip */
  size_t strips;      /* strips of a plane */
  size_t turns;       /* strips of all planes */
  execution_state *state;
} strip_job;

static void note_failure(execution_state *p, gconv_status status) {
  int none = GCONV_OK;
  atomic_compare_exchange_strong(&p->failure, &none, (int)status);
}

/* Counts a strip as done, and reports the progress to a caller who watches. */
static void report_strip(const strip_job *strips) {
  execution_state *p = strips->state;
  const double part = (double)(1 + atomic_fetch_add(&p->strips, 1)) / (double)strips->turns;
  gconv_control_step("filtering", ((double)p->pass + part) / (double)strips->run->count);
}

static void execute_strip(void *context, size_t turn, int thread) {
  const strip_job *strips = context;
  execution_state *state = strips->state;
  if (gconv_control_stops(state->control)) {
    note_failure(state, GCONV_STOPPED);
    return;
  }
  gconv_execution execution = strips->execution;
  const gconv_problem *problem = execution.problem;
  size_t plane = turn / strips->strips, strip = turn % strips->strips;
  execution.exact = strips->algorithm->info.exact;
  execution.workspace = strips->run->workspace + (size_t)thread * strips->run->workspace_bytes;
  execution.image = (int32_t)(plane / (size_t)problem->planes);
  execution.plane = (int32_t)(plane % (size_t)problem->planes);
  execution.first_row = strips->first + (int32_t)strip * strips->rows;
  execution.end_row = strips->end - execution.first_row < strips->rows ? strips->end : execution.first_row + strips->rows;
  const bool helps = gconv_control_here() != state->control;
  double start = gconv_now_ms();
  if (helps)
    gconv_control_lend(state->control);
  gconv_status status = strips->algorithm->execute(&execution);
  atomic_thread_fence(memory_order_seq_cst); /* a release does not order stores past the caches (kernels/cpu/rows.c) */
  if (helps)
    gconv_control_lend(NULL);
  atomic_fetch_add(&state->busy, (long long)((gconv_now_ms() - start) * 1e6));
  if (status != GCONV_OK)
    note_failure(state, status);
  if (state->control)
    report_strip(strips);
}

/* Returns the rows of a strip, of `count` output rows. There are about four strips for each thread.
 * But strips are at least four times as high as the filter, because each strip loads the further rows under the filter. */
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

/* Returns the rows of a strip for a caller who can stop the work: `rows`, the result of strip_rows(), or fewer if a thread
 * would work on them for long. */
static int32_t stoppable_rows(const cpu_run *run, const gconv_pass *pass, int32_t rows) {
  enum { STRIP_MS = 40, LEAST_ROWS = 8 };
  const gconv_problem *problem = &pass->problem;
  const double outputs = (double)rows * problem->out_width * problem->filters;
  if (outputs * problem->rows * problem->columns < 5e8) /* some 20 ms at most */
    return rows;
  const double ms = pass->algorithm->cost(problem, run->machine) / ((double)problem->images * problem->planes) * rows /
                    problem->out_height;
  const double parts = ms / STRIP_MS;
  const int32_t fewer = parts > 1 ? (int32_t)(rows / parts) : rows;
  return fewer > LEAST_ROWS ? fewer : rows < LEAST_ROWS ? rows : LEAST_ROWS;
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
                         const gconv_image *outputs, int32_t first, int32_t end, execution_state *state) {
  const gconv_problem *problem = &pass->problem;
  strip_job strips = {.run = run, .algorithm = pass->algorithm, .first = first, .end = end, .state = state};
  gconv_bind(pass, in, outputs + pass->first_output, run->targets, &strips.execution);
  strips.execution.in = seen_whole(strips.execution.in, in_row, strips.execution.in_row);
  for (int32_t k = 0; k < problem->filters; k++)
    run->targets[k].base = seen_whole(run->targets[k].base, first, run->targets[k].row);
  const int threads = threads_of(run);
  strips.rows = pass->algorithm->row_step ? step_rows(pass->algorithm->row_step(problem), end - first, threads)
                                          : strip_rows(problem, end - first, threads);
  if (state->control && !pass->algorithm->row_step)
    strips.rows = stoppable_rows(run, pass, strips.rows);
  strips.strips = (size_t)((end - first - 1) / strips.rows + 1);
  strips.turns = strips.strips * (size_t)problem->images * (size_t)problem->planes;
  for (size_t i = 0; run->alone && i < strips.turns; i++)
    execute_strip(&strips, i, 0);
  if (!run->alone)
    gconv_threads_run(run->threads, strips.turns, execute_strip, &strips);
}

/* Makes output rows first .. end - 1 of all passes, or fewer if a pass has fewer. */
static gconv_status run_passes(const cpu_run *run, const gconv_image *in, int32_t in_row, const gconv_image *outputs,
                               int32_t first, int32_t end, double *busy_ms) {
  execution_state p = {.control = gconv_control_here()};
  GCONV_TRY(gconv_control_step("filtering", 0));
  for (p.pass = 0; p.pass < run->count && atomic_load(&p.failure) == GCONV_OK; p.pass++) {
    int32_t height = run->passes[p.pass].problem.out_height;
    atomic_store(&p.strips, 0);
    execute_pass(run, &run->passes[p.pass], in, in_row, outputs, first, end < height ? end : height, &p);
  }
  *busy_ms = (double)atomic_load(&p.busy) * 1e-6;
  int status = atomic_load(&p.failure);
  if (status == GCONV_STOPPED)
    return gconv_control_fail(p.control);
  return status == GCONV_OK ? GCONV_OK : gconv_fail((gconv_status)status, "the convolution failed on the CPU");
}

/* Threads may serve other plans at the same time. So kernel_ms is the time of all threads for this plan, divided by the
 * number of threads. */
static gconv_status execute_rows(void *memory, const gconv_image *in, int32_t in_row, gconv_image *outputs, int32_t first,
                                 gconv_timings *timings) {
  const cpu_run *run = memory;
  double busy_ms = 0;
  gconv_status status = run_passes(run, in, in_row, outputs, first, first + outputs->height, &busy_ms);
  timings->kernel_ms += busy_ms / threads_of(run);
  return status;
}

static gconv_status execute(void *memory, const gconv_image *in, gconv_image *outputs, gconv_timings *timings) {
  double start = gconv_now_ms();
  double busy_ms;
  gconv_status status = run_passes(memory, in, 0, outputs, 0, INT32_MAX, &busy_ms);
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
    .held_bytes = held_bytes,
};
