/* SPDX-License-Identifier: MIT */
/* Rows of the kernel matrix. A cache keeps the most recently used rows; missing rows are computed many at a time. */
#include "base/memory.h"
#include "device/device.h"
#include "svm/cache.h"
#include "svm/svm.h"

#include <math.h>

struct gconv_svm_matrix {
  const gconv_svm_formula *formula;
  const gconv_svm_cases *cases;
  const size_t *members;
  gconv_threads *threads;
  gconv_svm_points points;
  size_t count, padded;
  gconv_svm_cache cache;
  float *rows;         /* slots x padded */
  bool borrowed;       /* `rows` belong to the matrix of which this one is a part */
  size_t *own_members; /* owned: `members` of a part; else NULL */
  double *scratch;     /* for each thread, room for the columns of a point */
  gconv_svm_row *missing;
  float **to;
  size_t missing_count;
  uint32_t *slots, *absent;    /* slots: the slots of the wanted rows; absent: which wanted rows are not in the cache */
  gconv_svm_gpu *gpu;          /* NULL: points, rows and scratch are on the CPU */
  gconv_svm_gpu_matrix *there; /* owned: the matrix on the GPU */
};

gconv_svm_formula gconv_svm_formula_of(gconv_svm_kernel kernel, int32_t degree, double gamma, double coef0,
                                       double largest_norm) {
  static const gconv_svm_form forms[] = {GCONV_SVM_FORM_EXP, GCONV_SVM_FORM_DOT, GCONV_SVM_FORM_POWER, GCONV_SVM_FORM_TANH,
                                         GCONV_SVM_FORM_GIVEN};
  const double rounding = 2.3e-16, allowed = 1e-6; /* rounding: of float64; allowed: the largest error of the exponent */
  return (gconv_svm_formula){.form = forms[kernel],
                             .degree = degree,
                             .gamma = gamma,
                             .coef0 = coef0,
                             .direct = kernel == GCONV_SVM_RBF && !(gamma * 4 * largest_norm * rounding < allowed)};
}

bool gconv_svm_gpu_computes(const gconv_device *device, const gconv_svm_formula *formula) {
#ifdef GCONV_WITH_CUDA
  return device->type == &gconv_device_type_cuda && formula->form < GCONV_SVM_FORM_TANH;
#else
  return false;
#endif
}

gconv_status gconv_svm_points_make(const gconv_svm_cases *cases, const size_t *members, size_t count,
                                   gconv_svm_points *points) {
  size_t padded = gconv_svm_padded(count), factors[] = {padded, cases->columns, sizeof *points->numbers};
  *points = (gconv_svm_points){.count = count, .columns = cases->columns};
  const size_t bytes = gconv_checked_product(3, factors);
  const uint64_t there = gconv_memory_there();
  if (bytes > there || gconv_allocate(bytes, "the cases", (void **)&points->numbers) != GCONV_OK)
    return gconv_fail(
        GCONV_NO_MEMORY,
        "no memory for %zu cases of %zu numbers: with their zeros, which the CPU stores, they take %.1f GiB, and this "
        "machine has %.1f; train on fewer cases, or on fewer columns",
        count, cases->columns, (double)padded * (double)cases->columns * (double)sizeof *points->numbers / 0x1p30,
        (double)there / 0x1p30);
  GCONV_TRY(gconv_allocate(padded * sizeof *points->norms, "norms", (void **)&points->norms));
  for (size_t i = 0; i < padded * cases->columns; i++)
    points->numbers[i] = 0;
  for (size_t i = count; i < padded; i++)
    points->norms[i] = 0;
  for (size_t i = 0; i < count; i++)
    gconv_svm_put_point(points, i, &cases->rows[members ? members[i] : i]);
  return GCONV_OK;
}

void gconv_svm_points_free(gconv_svm_points *points) {
  gconv_release(points->numbers);
  gconv_release(points->norms);
  *points = (gconv_svm_points){0};
}

void gconv_svm_each(gconv_threads *threads, size_t turns, gconv_turn *turn, void *context) {
  if (threads && turns > 1)
    gconv_threads_run(threads, turns, turn, context);
  else
    for (size_t i = 0; i < turns; i++) {
      gconv_control_poll();
      turn(context, i, 0);
    }
}

static gconv_status allocate_lists(gconv_svm_matrix *m, size_t least, size_t slots) {
  m->missing = malloc((least + 1) * sizeof *m->missing);
  m->to = malloc((least + 1) * sizeof *m->to);
  m->slots = malloc((least + 1) * sizeof *m->slots);
  m->absent = malloc((least + 1) * sizeof *m->absent);
  GCONV_NEED_MEMORY(m->missing && m->to && m->slots && m->absent, "no memory for a working set");
  return gconv_svm_cache_make(m->count, slots, &m->cache);
}

/* Allocates the cache; rows: existing memory of `floats` floats, or NULL. */
static gconv_status allocate(gconv_svm_matrix *m, size_t least, size_t floats, float *rows) {
  size_t seats = m->threads ? (size_t)gconv_threads_count(m->threads) : 1, slots = floats / m->padded;
  m->borrowed = rows && slots >= least;
  slots = slots < least ? least : slots;
  slots = slots > m->count ? m->count : slots;
  const size_t factors[] = {slots, m->padded, sizeof(float)}, scratch[] = {seats, m->points.columns, sizeof *m->scratch};
  m->rows = m->borrowed ? rows : NULL;
  if (!m->borrowed)
    GCONV_TRY(gconv_allocate(gconv_checked_product(3, factors), "the cache of kernel values", (void **)&m->rows));
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, scratch), "a row", (void **)&m->scratch));
  return allocate_lists(m, least, slots);
}

static gconv_status allocate_on_gpu(gconv_svm_matrix *m, size_t least, uint64_t bytes, gconv_svm_gpu_matrix *lender) {
#ifdef GCONV_WITH_CUDA
  const gconv_svm_gpu_order order = {.members = m->members,
                                     .count = m->count,
                                     .working = least,
                                     .slots = least < m->count ? least : m->count,
                                     .cache_bytes = bytes,
                                     .lender = lender};
  GCONV_TRY(gconv_svm_gpu_matrix_create(m->gpu, &order, &m->there));
  return allocate_lists(m, least, gconv_svm_gpu_matrix_slots(m->there));
#else
  return GCONV_UNSUPPORTED;
#endif
}

/* own: the memory of `members` if the matrix shall free it; else NULL. */
static gconv_status create(const gconv_svm_formula *formula, const gconv_svm_cases *cases, const size_t *members,
                           size_t count, size_t *own, const gconv_svm_place *place, gconv_svm_matrix **matrix) {
  gconv_svm_matrix *m = calloc(1, sizeof *m);
  *matrix = m;
  if (!m) {
    free(own);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a kernel matrix");
  }
  m->formula = formula;
  m->cases = cases;
  m->members = members;
  m->own_members = own;
  m->threads = place->threads;
  m->gpu = place->gpu;
  m->count = count;
  m->padded = gconv_svm_padded(count);
  return m->gpu || formula->form == GCONV_SVM_FORM_GIVEN ? GCONV_OK
                                                         : gconv_svm_points_make(cases, members, count, &m->points);
}

static gconv_status end_creation(gconv_status status, gconv_svm_matrix **matrix) {
  if (status != GCONV_OK) {
    gconv_svm_matrix_free(*matrix);
    *matrix = NULL;
  }
  return status;
}

gconv_status gconv_svm_matrix_create(const gconv_svm_formula *formula, const gconv_svm_cases *cases, const size_t *members,
                                     size_t count, size_t least, const gconv_svm_place *place, gconv_svm_matrix **matrix) {
  gconv_status status = create(formula, cases, members, count, NULL, place, matrix);
  if (status == GCONV_OK && place->gpu)
    status = allocate_on_gpu(*matrix, least, place->cache_bytes, NULL);
  else if (status == GCONV_OK)
    status = allocate(*matrix, least, (size_t)(place->cache_bytes / sizeof(float)), NULL);
  return end_creation(status, matrix);
}

gconv_status gconv_svm_matrix_part(gconv_svm_matrix *whole, const uint32_t *members, size_t count, size_t least,
                                   gconv_svm_matrix **part) {
  size_t *own = malloc((count + 1) * sizeof *own);
  GCONV_NEED_MEMORY(own, "no memory for a kernel matrix of %zu cases", count);
  for (size_t i = 0; i < count; i++)
    own[i] = whole->members[members[i]];
  const gconv_svm_place place = {.threads = whole->threads, .gpu = whole->gpu};
  gconv_status status = create(whole->formula, whole->cases, own, count, own, &place, part);
  if (status == GCONV_OK && whole->gpu)
    status = allocate_on_gpu(*part, least, 0, whole->there);
  else if (status == GCONV_OK)
    status = allocate(*part, least, whole->cache.slots * whole->padded, whole->rows);
  gconv_svm_cache_forget(&whole->cache);
  return end_creation(status, part);
}

void gconv_svm_matrix_free(gconv_svm_matrix *m) {
  if (!m)
    return;
  gconv_svm_points_free(&m->points);
  if (!m->borrowed)
    gconv_release(m->rows);
  gconv_release(m->scratch);
  free(m->own_members);
  gconv_svm_cache_free(&m->cache);
  free(m->missing);
  free(m->to);
  free(m->slots);
  free(m->absent);
#ifdef GCONV_WITH_CUDA
  gconv_svm_gpu_matrix_free(m->there);
#endif
  free(m);
}

/* ---- Rows ---- */

enum { TURN_BLOCKS = 8 };

static void make_blocks(void *context, size_t turn, int seat) {
  gconv_svm_matrix *m = context;
  size_t first = turn * TURN_BLOCKS, all = m->padded / GCONV_SVM_BLOCK;
  gconv_svm_rows(m->formula, &m->points, m->missing, m->missing_count, first,
                 all - first < TURN_BLOCKS ? all - first : TURN_BLOCKS, m->scratch + (size_t)seat * m->points.columns,
                 m->to);
}

/* Computes a block of columns up to the diagonal, and mirrors it: K is symmetric, to the bit. */
static void make_half(void *context, size_t turn, int seat) {
  gconv_svm_matrix *m = context;
  size_t block = m->padded / GCONV_SVM_BLOCK - 1 - turn; /* the longest first */
  size_t rows = (block + 1) * GCONV_SVM_BLOCK < m->count ? (block + 1) * GCONV_SVM_BLOCK : m->count;
  gconv_svm_rows(m->formula, &m->points, m->missing, rows, block, 1, m->scratch + (size_t)seat * m->points.columns, m->to);
  gconv_svm_mirror(m->to, m->count, block);
}

/* Returns a number of a case: its kernel value with case `column`. */
static float given(const gconv_svm_row *row, size_t column) {
  size_t low = 0, high = row->count;
  if (row->count > column && row->columns[column] == column) /* there is no zero before it */
    return row->values[column];
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (row->columns[middle] < column)
      low = middle + 1;
    else
      high = middle;
  }
  return low < row->count && row->columns[low] == column ? row->values[low] : 0;
}

static void copy_row(void *context, size_t turn, int seat) {
  const gconv_svm_matrix *m = context;
  for (size_t i = 0; i < m->count; i++)
    m->to[turn][i] = given(&m->missing[turn], m->members[i]);
  for (size_t i = m->count; i < m->padded; i++)
    m->to[turn][i] = 0;
}

static void make_rows(gconv_svm_matrix *m, const uint32_t *wanted) {
  size_t blocks = m->padded / GCONV_SVM_BLOCK;
  bool all = m->missing_count == m->count;
  for (size_t k = 0; k < m->missing_count; k++) {
    const uint32_t member = wanted[m->absent[k]];
    m->missing[k] = m->cases->rows[m->members[member]];
    m->to[k] = m->rows + (size_t)m->slots[m->absent[k]] * m->padded;
    all = all && member == k;
  }
  if (m->formula->form == GCONV_SVM_FORM_GIVEN)
    gconv_svm_each(m->threads, m->missing_count, copy_row, m);
  else if (all)
    gconv_svm_each(m->threads, blocks, make_half, m);
  else if (m->missing_count > 0)
    gconv_svm_each(m->threads, (blocks + TURN_BLOCKS - 1) / TURN_BLOCKS, make_blocks, m);
}

gconv_status gconv_svm_matrix_rows(gconv_svm_matrix *m, const uint32_t *wanted, size_t count, const float **rows) {
  m->missing_count = gconv_svm_cache_take(&m->cache, wanted, count, m->slots, m->absent);
  make_rows(m, wanted);
  for (size_t k = 0; k < count; k++)
    rows[k] = m->rows + (size_t)m->slots[k] * m->padded;
  return GCONV_OK;
}

/* ---- On a GPU ---- */

bool gconv_svm_matrix_on_gpu(const gconv_svm_matrix *matrix) {
  return matrix->there != NULL;
}

#ifdef GCONV_WITH_CUDA
static gconv_status make_on_gpu(gconv_svm_matrix *m, const uint32_t *wanted, size_t count) {
  uint32_t *slots = m->absent; /* in place: entry k is read before it is overwritten */
  const size_t missing = gconv_svm_cache_take(&m->cache, wanted, count, m->slots, m->absent);
  uint32_t *members = (uint32_t *)m->to; /* only the CPU uses to[] for pointers */
  for (size_t k = 0; k < missing; k++) {
    members[k] = wanted[m->absent[k]];
    slots[k] = m->slots[m->absent[k]];
  }
  return missing > 0 ? gconv_svm_gpu_matrix_make(m->there, members, slots, missing) : GCONV_OK;
}

gconv_status gconv_svm_matrix_begin(gconv_svm_matrix *m, const double *g) {
  return m->there ? gconv_svm_gpu_matrix_begin(m->there, g) : GCONV_OK;
}

gconv_status gconv_svm_matrix_solve(gconv_svm_matrix *m, const uint32_t *wanted, const gconv_svm_small *small,
                                    double tolerance, uint64_t most, uint64_t *steps, double *g) {
  GCONV_TRY(make_on_gpu(m, wanted, small->count));
  const gconv_svm_gpu_working working = {.count = small->count,
                                         .members = wanted,
                                         .slots = m->slots,
                                         .diagonal = small->diagonal,
                                         .low = small->low,
                                         .high = small->high,
                                         .F = small->F,
                                         .b = small->b,
                                         .tolerance = tolerance,
                                         .most = most,
                                         .steps = steps};
  return gconv_svm_gpu_matrix_solve(m->there, &working, g);
}

gconv_status gconv_svm_matrix_subtract(gconv_svm_matrix *m, const uint32_t *wanted, const double *by, size_t count,
                                       double *g) {
  GCONV_TRY(make_on_gpu(m, wanted, count));
  return gconv_svm_gpu_matrix_subtract(m->there, m->slots, by, count, g);
}
#else
gconv_status gconv_svm_matrix_begin(gconv_svm_matrix *m, const double *g) {
  return GCONV_OK;
}

gconv_status gconv_svm_matrix_solve(gconv_svm_matrix *m, const uint32_t *wanted, const gconv_svm_small *small,
                                    double tolerance, uint64_t most, uint64_t *steps, double *g) {
  return GCONV_UNSUPPORTED;
}

gconv_status gconv_svm_matrix_subtract(gconv_svm_matrix *m, const uint32_t *wanted, const double *by, size_t count,
                                       double *g) {
  return GCONV_UNSUPPORTED;
}
#endif

double gconv_svm_matrix_diagonal(const gconv_svm_matrix *m, size_t member) {
  const gconv_svm_row *row = &m->cases->rows[m->members[member]];
  return m->formula->form == GCONV_SVM_FORM_GIVEN ? (double)given(row, m->members[member])
                                                  : gconv_svm_diagonal(m->formula, row->norm);
}

double gconv_svm_diagonal(const gconv_svm_formula *formula, double norm) {
  double base = formula->gamma * norm + formula->coef0, power = 1;
  switch (formula->form) {
  case GCONV_SVM_FORM_EXP:
    return 1;
  case GCONV_SVM_FORM_DOT:
  case GCONV_SVM_FORM_GIVEN: /* its diagonal is read from the cases */
    return (double)(float)norm;
  case GCONV_SVM_FORM_TANH:
    return (double)(float)tanh(base);
  case GCONV_SVM_FORM_POWER:
    break;
  }
  for (int32_t degree = formula->degree; degree > 0; degree /= 2, base *= base)
    power *= degree % 2 == 1 ? base : 1;
  return (double)(float)power;
}
