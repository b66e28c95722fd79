/* SPDX-License-Identifier: MIT */
/*
 * The experiment rbf: a row of the RBF kernel, and the extrema of gradients, by the layouts of memory that an article
 * compared (kernels/cuda/experiments/rbf.h), and by gconv's own kernel, beside one core and the bound of the memory. `items`
 * are numbers that are read, so that 4 bytes times their rate is a bandwidth. Each row, and each place, is compared with one
 * core's.
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

enum { COLUMNS = 1000, TURNS = 10 }; /* TURNS: of a run on a GPU */

typedef struct problem {
  size_t cases;
  double gamma;
  float *numbers;          /* owned: cases x COLUMNS */
  gconv_svm_points points; /* owned: the same, for one core */
  float *row, *found;      /* owned: one core's row; a row to compare with it */
  uint32_t where[2];       /* the smallest, and the largest number */
} problem;

static void free_problem(problem *p) {
  gconv_release(p->numbers);
  gconv_release(p->points.numbers);
  gconv_release(p->points.norms);
  gconv_release(p->row);
  gconv_release(p->found);
}

static gconv_status fill_problem(problem *p) {
  const size_t padded = gconv_svm_padded(p->cases), all = p->cases * COLUMNS;
  p->gamma = 1.0 / COLUMNS;
  p->points = (gconv_svm_points){.count = p->cases, .columns = COLUMNS};
  GCONV_TRY(gconv_bench_draw_numbers(all, 1, "the cases", &p->numbers));
  GCONV_TRY(gconv_allocate(padded * COLUMNS * sizeof(double), "the cases", (void **)&p->points.numbers));
  GCONV_TRY(gconv_allocate(padded * sizeof(double), "the cases", (void **)&p->points.norms));
  GCONV_TRY(gconv_allocate(padded * sizeof *p->row, "a row", (void **)&p->row));
  GCONV_TRY(gconv_allocate(padded * sizeof *p->found, "a row", (void **)&p->found));
  memset(p->points.numbers, 0, padded * COLUMNS * sizeof(double));
  memset(p->points.norms, 0, padded * sizeof(double));
  uint32_t columns[COLUMNS];
  for (uint32_t k = 0; k < COLUMNS; k++)
    columns[k] = k;
  for (size_t i = 0; i < p->cases; i++) {
    const float *values = p->numbers + i * COLUMNS;
    const gconv_svm_row row = {columns, values, COLUMNS, gconv_svm_norm(values, COLUMNS)};
    gconv_svm_put_point(&p->points, i, &row);
  }
  return GCONV_OK;
}

/* ---- One core ---- */

static void make_row(problem *p) {
  uint32_t columns[COLUMNS];
  double scratch[COLUMNS];
  const gconv_svm_formula formula = {.form = GCONV_SVM_FORM_EXP, .gamma = p->gamma};
  float *to[] = {p->row};
  for (uint32_t k = 0; k < COLUMNS; k++)
    columns[k] = k;
  const gconv_svm_row row = {columns, p->numbers, COLUMNS, gconv_svm_norm(p->numbers, COLUMNS)};
  gconv_svm_rows(&formula, &p->points, &row, 1, 0, gconv_svm_padded(p->cases) / GCONV_SVM_BLOCK, scratch, to);
}

static void find_extrema(problem *p) {
  const size_t all = p->cases * COLUMNS;
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

static gconv_status check(problem *p, const gconv_rbf *rbf, gconv_rbf_kind kind, gconv_bench_row *row) {
  const bool rows = kind == GCONV_RBF_ROW || kind == GCONV_RBF_MANY;
  uint32_t where[2];
  if (kind == GCONV_RBF_READ)
    return GCONV_OK;
  GCONV_TRY(gconv_rbf_get(rbf, rows ? p->found : NULL, rows ? NULL : where));
  row->checked = true;
  row->allowed = rows ? ALLOWED : 0;
  for (size_t i = 0; rows && i < p->cases; i++)
    gconv_bench_note_error(row, fabs((double)p->found[i] - (double)p->row[i]));
  const bool low = kind == GCONV_RBF_MAX || where[0] == p->where[0], high = kind == GCONV_RBF_MIN || where[1] == p->where[1];
  if (rows ? row->error <= ALLOWED : low && high)
    return GCONV_OK;
  return gconv_fail(GCONV_MISMATCH, rows ? "its row differs from one core's" : "it finds another place than one core");
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

static gconv_status time_method(gconv_bench *bench, problem *p, size_t method, gconv_rbf_kind kind, gconv_bench_row *row) {
  const gconv_rbf_order order = {method, p->cases, COLUMNS, p->numbers, (float)p->gamma};
  turns t = {.count = kind == GCONV_RBF_MANY ? 1 : TURNS};
  double unused;
  gconv_device_enter(bench->device);
  gconv_status status = gconv_rbf_create(&order, &t.rbf);
  GCONV_THEN(status, gconv_rbf_run(t.rbf, 1, &unused));
  GCONV_THEN(status, check(p, t.rbf, kind, row));
  GCONV_THEN(status, gconv_bench_time_runs(row, bench->grid->runs, run_turns, &t));
  gconv_rbf_free(t.rbf);
  gconv_device_leave(bench->device);
  return status;
}
#endif

/* ---- All methods ---- */

static gconv_bench_row begin_row(const problem *p, const char *method, bool extrema) {
  gconv_bench_row row = {.algorithm = method, .place = (double)p->cases, .items = (double)(p->cases * COLUMNS)};
  snprintf(row.filter, sizeof row.filter, extrema ? "extrema" : "row");
  snprintf(row.group, sizeof row.group, "%zu cases of %d numbers: a row of the RBF kernel, and extrema of as many numbers",
           p->cases, COLUMNS);
  return row;
}

typedef struct core_work {
  problem *p;
  bool extrema;
} core_work;

static gconv_status run_core(const void *user, double *ms) {
  const core_work *w = user;
  const double start = gconv_now_ms();
  (w->extrema ? find_extrema : make_row)(w->p);
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
    if ((method->kind != GCONV_RBF_ROW && method->kind != GCONV_RBF_MANY) != extrema)
      continue;
    gconv_bench_row row = begin_row(p, method->name, extrema);
    const gconv_status status = time_method(bench, p, i, method->kind, &row);
    gconv_bench_end_row(bench, &row, status);
  }
#endif
}

gconv_status gconv_bench_rbf(gconv_bench *bench, int32_t cases) {
  problem p = {.cases = (size_t)cases};
  gconv_status status = fill_problem(&p);
  for (int extrema = 0; status == GCONV_OK && extrema < 2; extrema++)
    measure_all(bench, &p, extrema == 1);
  free_problem(&p);
  return status;
}
