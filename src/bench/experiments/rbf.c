/* SPDX-License-Identifier: MIT */
/*
 * The experiment rbf: two rows of the RBF kernel, and the extrema of gradients, by the layouts of memory that an article
 * compared (kernels/cuda/experiments/rbf.h), and by gconv's own kernel, beside one core and a mere read of the memory, which
 * is the bound. `items` are numbers that are read, so that 4 bytes times their rate is a bandwidth. Each row, and each place
 * of an extremum, is compared with the result of one core.
 */
#include "kernels/cuda/experiments/rbf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "bench/bench.h"
#include "device/device.h"
#include "kernels/cpu/svm/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_COLUMNS = 1000, TURNS = 10 }; /* TURNS: of a run on a GPU */

typedef struct problem {
  size_t cases, columns;
  double gamma;
  float *numbers;          /* owned: cases x columns */
  gconv_svm_points points; /* owned: the same, for one core */
  float *rows[2], *found;  /* owned: one core's rows of cases 0 and 1; two rows to compare with them */
  uint32_t *own;           /* owned: the numbers of all columns */
  double *scratch;         /* owned */
  uint32_t where[2];       /* the smallest, and the largest number */
} problem;

static void free_problem(problem *p) {
  gconv_release(p->numbers);
  gconv_release(p->points.numbers);
  gconv_release(p->points.norms);
  gconv_release(p->rows[0]);
  gconv_release(p->rows[1]);
  gconv_release(p->own);
  gconv_release(p->scratch);
  gconv_release(p->found);
}

static gconv_status fill_problem(problem *p) {
  const size_t padded = gconv_svm_padded(p->cases), all = p->cases * p->columns;
  p->gamma = 1.0 / (double)p->columns;
  p->points = (gconv_svm_points){.count = p->cases, .columns = p->columns};
  GCONV_TRY(gconv_bench_draw_numbers(all, 1, "the cases", &p->numbers));
  GCONV_TRY(gconv_allocate(padded * p->columns * sizeof(double), "the cases", (void **)&p->points.numbers));
  GCONV_TRY(gconv_allocate(padded * sizeof(double), "the cases", (void **)&p->points.norms));
  GCONV_TRY(gconv_allocate(padded * sizeof(float), "a row", (void **)&p->rows[0]));
  GCONV_TRY(gconv_allocate(padded * sizeof(float), "a row", (void **)&p->rows[1]));
  GCONV_TRY(gconv_allocate(2 * padded * sizeof(float), "two rows", (void **)&p->found));
  GCONV_TRY(gconv_allocate(p->columns * sizeof *p->own, "the columns", (void **)&p->own));
  GCONV_TRY(gconv_allocate(2 * p->columns * sizeof *p->scratch, "the columns", (void **)&p->scratch));
  memset(p->points.numbers, 0, padded * p->columns * sizeof(double));
  memset(p->points.norms, 0, padded * sizeof(double));
  for (size_t k = 0; k < p->columns; k++)
    p->own[k] = (uint32_t)k;
  for (size_t i = 0; i < p->cases; i++) {
    const float *values = p->numbers + i * p->columns;
    const gconv_svm_row row = {p->own, values, p->columns, gconv_svm_norm(values, p->columns)};
    gconv_svm_put_point(&p->points, i, &row);
  }
  return GCONV_OK;
}

/* ---- One core ---- */

static void make_rows(problem *p) {
  const gconv_svm_formula formula = {.form = GCONV_SVM_FORM_EXP, .gamma = p->gamma};
  gconv_svm_row rows[2];
  for (size_t i = 0; i < 2; i++) {
    const float *values = p->numbers + (i < p->cases ? i : 0) * p->columns;
    rows[i] = (gconv_svm_row){p->own, values, p->columns, gconv_svm_norm(values, p->columns)};
  }
  gconv_svm_rows(&formula, &p->points, rows, 2, 0, gconv_svm_padded(p->cases) / GCONV_SVM_BLOCK, p->scratch, p->rows);
}

static void find_extrema(problem *p) {
  const size_t all = p->cases * p->columns;
  size_t smallest = 0, largest = 0;
  for (size_t i = 1; i < all; i++) {
    smallest = p->numbers[i] < p->numbers[smallest] ? i : smallest;
    largest = p->numbers[i] > p->numbers[largest] ? i : largest;
  }
  p->where[0] = (uint32_t)smallest;
  p->where[1] = (uint32_t)largest;
}

/* ---- The GPU ---- */

#ifdef GCONV_WITH_CUDA
static const double ALLOWED = 1e-5; /* error of a value; values are at most 1 */

static bool makes_rows(gconv_rbf_kind kind) {
  return kind == GCONV_RBF_ROWS || kind == GCONV_RBF_MANY;
}

static gconv_status check_rows(problem *p, const gconv_rbf *rbf, gconv_bench_row *row) {
  GCONV_TRY(gconv_rbf_get(rbf, p->found, NULL));
  row->checked = true;
  row->allowed = ALLOWED;
  for (size_t i = 0; i < 2 * p->cases; i++)
    gconv_bench_note_error(row, fabs((double)p->found[i] - (double)p->rows[i / p->cases][i % p->cases]));
  return row->error <= ALLOWED ? GCONV_OK : gconv_fail(GCONV_MISMATCH, "its rows differ from one core's");
}

static gconv_status check_extrema(const problem *p, const gconv_rbf *rbf, gconv_rbf_kind kind, gconv_bench_row *row) {
  const bool plain = kind == GCONV_RBF_PLAIN_MIN || kind == GCONV_RBF_PLAIN_MAX;
  uint32_t where[2] = {0, 0};
  float value = 0;
  GCONV_TRY(plain ? gconv_rbf_get_value(rbf, &value) : gconv_rbf_get(rbf, NULL, where));
  row->checked = true;
  if (plain && value == p->numbers[p->where[kind == GCONV_RBF_PLAIN_MAX]])
    return GCONV_OK;
  if (!plain && (kind == GCONV_RBF_MAX || where[0] == p->where[0]) && (kind == GCONV_RBF_MIN || where[1] == p->where[1]))
    return GCONV_OK;
  return gconv_fail(GCONV_MISMATCH, "it finds another extremum than one core");
}

static gconv_status check(problem *p, const gconv_rbf *rbf, gconv_rbf_kind kind, gconv_bench_row *row) {
  if (kind == GCONV_RBF_READ)
    return GCONV_OK;
  return makes_rows(kind) ? check_rows(p, rbf, row) : check_extrema(p, rbf, kind, row);
}

typedef struct turns {
  gconv_rbf *rbf;
  int count;
} turns;

static gconv_status run_turns(const void *user, double *ms) {
  const turns *t = user;
  GCONV_TRY(gconv_rbf_run(t->rbf, t->count, ms));
  *ms /= t->count;
  return GCONV_OK;
}

static gconv_status run_turn(void *user) {
  double ms;
  return gconv_rbf_run(user, 1, &ms);
}

static gconv_status time_method(gconv_bench *bench, problem *p, size_t method, gconv_rbf_kind kind, gconv_bench_row *row) {
  const gconv_rbf_order order = {method, p->cases, p->columns, p->numbers, (float)p->gamma};
  turns t = {.count = kind == GCONV_RBF_MANY ? 1 : TURNS};
  double unused;
  gconv_device_enter(bench->device);
  gconv_status status = gconv_rbf_create(&order, &t.rbf);
  GCONV_THEN(status, gconv_rbf_run(t.rbf, 1, &unused));
  GCONV_THEN(status, check(p, t.rbf, kind, row));
  GCONV_THEN(status, gconv_bench_time_runs(row, bench->grid->runs, run_turns, &t));
  if (status == GCONV_OK)
    gconv_bench_profile_work(bench, run_turn, t.rbf, row);
  gconv_rbf_free(t.rbf);
  gconv_device_leave(bench->device);
  return status;
}
#endif

/* ---- All methods ---- */

/* Plots show billions of operations, or of numbers, a second. */
static gconv_bench_row begin_row(const problem *p, const char *method, bool extrema) {
  gconv_bench_row row = {.algorithm = method, .place = (double)p->cases, .items = (double)(p->cases * p->columns)};
  row.rate = extrema ? 1e-6 : 6e-6;
  snprintf(row.filter, sizeof row.filter, extrema ? "extrema of %zu" : "rows of %zu", p->cases);
  snprintf(row.group, sizeof row.group,
           extrema ? "extrema of cases x %zu numbers: G numbers/s"
                   : "two rows of the RBF kernel, cases of %zu numbers: GFLOP/s",
           p->columns);
  return row;
}

typedef struct core_work {
  problem *p;
  bool extrema;
} core_work;

static gconv_status run_core(const void *user, double *ms) {
  const core_work *w = user;
  const double start = gconv_now_ms();
  (w->extrema ? find_extrema : make_rows)(w->p);
  *ms = gconv_now_ms() - start;
  return GCONV_OK;
}

static void measure_core(gconv_bench *bench, problem *p, bool extrema) {
  enum { RUNS = 5 };
  gconv_bench_row row = begin_row(p, "one-core", extrema);
  row.threads = 1;
  gconv_bench_end_row(bench, &row, gconv_bench_time_runs(&row, RUNS, run_core, &(core_work){p, extrema}));
}

/* Measures all methods that make a row, or all that find extrema. */
static void measure_all(gconv_bench *bench, problem *p, bool extrema) {
  measure_core(bench, p, extrema);
#ifdef GCONV_WITH_CUDA
  const gconv_rbf_method *method;
  for (size_t i = 0; strcmp(bench->type_name, "cuda") == 0 && (method = gconv_rbf_method_at(i)); i++) {
    if (makes_rows(method->kind) == extrema)
      continue;
    gconv_bench_row row = begin_row(p, method->name, extrema);
    const gconv_status status = time_method(bench, p, i, method->kind, &row);
    gconv_bench_end_row(bench, &row, status);
  }
#endif
}

gconv_status gconv_bench_rbf(gconv_bench *bench, int32_t cases) {
  const int32_t columns = bench->grid->columns;
  GCONV_ENDED_BY(free_problem)
  problem p = {.cases = (size_t)cases, .columns = (size_t)(columns > 0 ? columns : USUAL_COLUMNS)};
  GCONV_TRY(fill_problem(&p));
  for (int extrema = 0; extrema < 2; extrema++)
    measure_all(bench, &p, extrema == 1);
  return GCONV_OK;
}
