/* SPDX-License-Identifier: MIT */
/* Rows of the kernel matrix. Those that were used last are kept (LRU); many are made at a time. */
#include "base/memory.h"
#include "learn/svm.h"

#include <math.h>
#include <stdlib.h>

static const uint32_t none = UINT32_MAX;

struct gconv_svm_matrix {
  const gconv_svm_formula *formula;
  const gconv_svm_cases *cases;
  const size_t *members;
  gconv_threads *threads;
  gconv_svm_points points;
  size_t count, padded;
  size_t slots, used;            /* rows that fit; that are there */
  float *rows;                   /* slots x padded */
  bool borrowed;                 /* of the matrix that this is a part of */
  size_t *own_members;           /* owned, of a part; else NULL */
  uint32_t *slot_of, *member_of; /* of members, and of slots; `none` */
  uint32_t *newer, *older;       /* of slots: a list by use, with ends first and last */
  uint32_t newest, oldest;
  double *scratch; /* the columns of a point for each thread */
  gconv_svm_row *missing;
  float **to;
  size_t missing_count;
};

gconv_svm_formula gconv_svm_formula_of(gconv_svm_kernel kernel, int32_t degree, double gamma, double coef0,
                                       double largest_norm) {
  static const gconv_svm_form forms[] = {GCONV_SVM_FORM_EXP, GCONV_SVM_FORM_DOT, GCONV_SVM_FORM_POWER, GCONV_SVM_FORM_TANH};
  const double rounding = 2.3e-16, allowed = 1e-6; /* of float64; of the exponent */
  return (gconv_svm_formula){.form = forms[kernel],
                             .degree = degree,
                             .gamma = gamma,
                             .coef0 = coef0,
                             .direct = kernel == GCONV_SVM_RBF && !(gamma * 4 * largest_norm * rounding < allowed)};
}

gconv_status gconv_svm_points_make(const gconv_svm_cases *cases, const size_t *members, size_t count,
                                   gconv_svm_points *points) {
  size_t padded = gconv_svm_padded(count), factors[] = {padded, cases->columns, sizeof *points->numbers};
  *points = (gconv_svm_points){.count = count, .columns = cases->columns};
  GCONV_TRY(gconv_allocate(gconv_product(3, factors), "the cases, by columns", (void **)&points->numbers));
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
    for (size_t i = 0; i < turns; i++)
      turn(context, i, 0);
}

/* Empties the cache. */
static void forget(gconv_svm_matrix *m) {
  for (size_t i = 0; i < m->count; i++)
    m->slot_of[i] = none;
  m->newest = m->oldest = none;
  m->used = 0;
}

/* `floats` are at `rows`, or NULL. */
static gconv_status allocate(gconv_svm_matrix *m, size_t least, size_t floats, float *rows) {
  size_t seats = m->threads ? (size_t)gconv_threads_count(m->threads) : 1;
  m->slots = floats / m->padded;
  m->borrowed = rows && m->slots >= least;
  m->slots = m->slots < least ? least : m->slots;
  m->slots = m->slots > m->count ? m->count : m->slots;
  const size_t factors[] = {m->slots, m->padded, sizeof(float)}, scratch[] = {seats, m->points.columns, sizeof *m->scratch};
  m->rows = m->borrowed ? rows : NULL;
  if (!m->borrowed)
    GCONV_TRY(gconv_allocate(gconv_product(3, factors), "the cache of kernel values", (void **)&m->rows));
  GCONV_TRY(gconv_allocate(gconv_product(3, scratch), "a row", (void **)&m->scratch));
  m->slot_of = malloc(m->count * sizeof *m->slot_of);
  m->member_of = malloc(m->slots * sizeof *m->member_of);
  m->newer = malloc(m->slots * sizeof *m->newer);
  m->older = malloc(m->slots * sizeof *m->older);
  m->missing = malloc(least * sizeof *m->missing);
  m->to = malloc(least * sizeof *m->to);
  if (!m->slot_of || !m->member_of || !m->newer || !m->older || !m->missing || !m->to)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the cache of %zu rows", m->slots);
  forget(m);
  return GCONV_OK;
}

/* `own`: members are the matrix's now. */
static gconv_status create(const gconv_svm_formula *formula, const gconv_svm_cases *cases, const size_t *members,
                           size_t count, size_t *own, gconv_threads *threads, gconv_svm_matrix **matrix) {
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
  m->threads = threads;
  m->count = count;
  m->padded = gconv_svm_padded(count);
  return gconv_svm_points_make(cases, members, count, &m->points);
}

static gconv_status end_creation(gconv_status status, gconv_svm_matrix **matrix) {
  if (status != GCONV_OK) {
    gconv_svm_matrix_free(*matrix);
    *matrix = NULL;
  }
  return status;
}

gconv_status gconv_svm_matrix_create(const gconv_svm_formula *formula, const gconv_svm_cases *cases, const size_t *members,
                                     size_t count, size_t least, uint64_t cache_bytes, gconv_threads *threads,
                                     gconv_svm_matrix **matrix) {
  gconv_status status = create(formula, cases, members, count, NULL, threads, matrix);
  if (status == GCONV_OK)
    status = allocate(*matrix, least, (size_t)(cache_bytes / sizeof(float)), NULL);
  return end_creation(status, matrix);
}

gconv_status gconv_svm_matrix_part(gconv_svm_matrix *whole, const uint32_t *members, size_t count, size_t least,
                                   gconv_svm_matrix **part) {
  size_t *own = malloc((count + 1) * sizeof *own);
  if (!own)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a kernel matrix of %zu cases", count);
  for (size_t i = 0; i < count; i++)
    own[i] = whole->members[members[i]];
  gconv_status status = create(whole->formula, whole->cases, own, count, own, whole->threads, part);
  if (status == GCONV_OK)
    status = allocate(*part, least, whole->slots * whole->padded, whole->rows);
  forget(whole);
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
  free(m->slot_of);
  free(m->member_of);
  free(m->newer);
  free(m->older);
  free(m->missing);
  free(m->to);
  free(m);
}

/* ---- The list by use ---- */

static void leave(gconv_svm_matrix *m, uint32_t slot) {
  uint32_t newer = m->newer[slot], older = m->older[slot];
  *(newer == none ? &m->newest : &m->older[newer]) = older;
  *(older == none ? &m->oldest : &m->newer[older]) = newer;
}

static void enter(gconv_svm_matrix *m, uint32_t slot) {
  m->newer[slot] = none;
  m->older[slot] = m->newest;
  *(m->newest == none ? &m->oldest : &m->newer[m->newest]) = slot;
  m->newest = slot;
}

/* A slot for a row that is not there: a free one, or that of the row that was not used for longest. */
static uint32_t take_slot(gconv_svm_matrix *m) {
  if (m->used < m->slots)
    return (uint32_t)m->used++;
  uint32_t slot = m->oldest;
  leave(m, slot);
  m->slot_of[m->member_of[slot]] = none;
  return slot;
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

/* All rows: K is symmetric, and has the same bits on either side of its diagonal. */
static void make_half(void *context, size_t turn, int seat) {
  gconv_svm_matrix *m = context;
  size_t block = m->padded / GCONV_SVM_BLOCK - 1 - turn; /* the longest first */
  size_t rows = (block + 1) * GCONV_SVM_BLOCK < m->count ? (block + 1) * GCONV_SVM_BLOCK : m->count;
  gconv_svm_rows(m->formula, &m->points, m->missing, rows, block, 1, m->scratch + (size_t)seat * m->points.columns, m->to);
  gconv_svm_mirror(m->to, m->count, block);
}

gconv_status gconv_svm_matrix_rows(gconv_svm_matrix *m, const uint32_t *wanted, size_t count, const float **rows) {
  for (size_t k = 0; k < count; k++) { /* first those that are there, so that none of them has to go */
    uint32_t slot = m->slot_of[wanted[k]];
    if (slot != none) {
      leave(m, slot);
      enter(m, slot);
    }
  }
  m->missing_count = 0;
  for (size_t k = 0; k < count; k++) {
    uint32_t slot = m->slot_of[wanted[k]];
    if (slot == none) {
      slot = take_slot(m);
      enter(m, slot);
      m->slot_of[wanted[k]] = slot;
      m->member_of[slot] = wanted[k];
      m->missing[m->missing_count] = m->cases->rows[m->members[wanted[k]]];
      m->to[m->missing_count++] = m->rows + (size_t)slot * m->padded;
    }
    rows[k] = m->rows + (size_t)slot * m->padded;
  }
  size_t blocks = m->padded / GCONV_SVM_BLOCK;
  bool all = m->missing_count == m->count;
  for (size_t k = 0; k < m->missing_count && all; k++)
    all = wanted[k] == k;
  if (all)
    gconv_svm_each(m->threads, blocks, make_half, m);
  else if (m->missing_count > 0)
    gconv_svm_each(m->threads, (blocks + TURN_BLOCKS - 1) / TURN_BLOCKS, make_blocks, m);
  return GCONV_OK;
}

double gconv_svm_matrix_diagonal(const gconv_svm_matrix *m, size_t member) {
  const double norm = m->cases->rows[m->members[member]].norm, gamma = m->formula->gamma, coef0 = m->formula->coef0;
  double base = gamma * norm + coef0, power = 1;
  switch (m->formula->form) {
  case GCONV_SVM_FORM_EXP:
    return 1;
  case GCONV_SVM_FORM_DOT:
    return (double)(float)norm;
  case GCONV_SVM_FORM_TANH:
    return (double)(float)tanh(base);
  case GCONV_SVM_FORM_POWER:
    break;
  }
  for (int32_t degree = m->formula->degree; degree > 0; degree /= 2, base *= base)
    power *= degree % 2 == 1 ? base : 1;
  return (double)(float)power;
}
