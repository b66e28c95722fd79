/* SPDX-License-Identifier: MIT */
#include "fit/moments.h"
#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

enum {
  SHIFTS = 4,          /* shifts of gconv_dots() at a time */
  LANES = 8,           /* partial sums of each shift */
  BATCH_SUMS = 65536,  /* samples of the windows that are subtracted together: 512 KB */
  FEWEST_WINDOWS = 128 /* the least number of such windows */
};

/* The sums that one turn of a thread computes. */
typedef struct task {
  enum { PRODUCTS, CROSS } kind;
  int32_t row;   /* PRODUCTS: the vertical distance; CROSS: the row of the taps */
  int32_t first; /* PRODUCTS: the first horizontal distance; CROSS: the first column */
  int32_t count; /* the number of distances or columns, 1 to SHIFTS */
  int32_t sign;  /* distances go to the right (1) or to the left (-1) */
} task;

struct gconv_moments_work {
  task *tasks; /* owned */
  size_t count;
  int seats;
  double *lines;   /* owned: [seats][2][SHIFTS][columns] */
  double *windows; /* owned: [taps + SHIFTS][batch]: the windows that do not count */
  size_t batch;
};

/* ---- Dot products ---------------------------------------------------------------------------------------------------- */

/* A vector of half of the lanes. GCC keeps sums in registers only if they are vectors. */
typedef double half __attribute__((vector_size(LANES / 2 * sizeof(double)), aligned(sizeof(double))));

GCONV_VECTOR_LOOP(dots, (const double *f, const double *g, size_t stride, size_t count, double *results),
                  (f, g, stride, count, results)) {
  half low[SHIFTS] = {{0}}, high[SHIFTS] = {{0}};
  size_t whole = count / LANES * LANES;
  for (size_t i = 0; i < whole; i += LANES) {
    half f_low = *(const half *)(f + i), f_high = *(const half *)(f + i + LANES / 2);
#pragma GCC unroll 4
    for (size_t k = 0; k < SHIFTS; k++) {
      low[k] += f_low * *(const half *)(g + k * stride + i);
      high[k] += f_high * *(const half *)(g + k * stride + i + LANES / 2);
    }
  }
#pragma GCC unroll 4
  for (size_t k = 0; k < SHIFTS; k++) {
    half both = low[k] + high[k];
    double sum = (both[0] + both[2]) + (both[1] + both[3]);
    for (size_t i = whole; i < count; i++)
      sum += f[i] * g[k * stride + i];
    results[k] = sum;
  }
}

void gconv_dots(const double *f, const double *g, size_t stride, size_t count, double results[4]) {
  dots(f, g, stride, count, results);
}

/* ---- Making and freeing ---------------------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Returns the number of pairs of taps in a row with this horizontal distance. */
static int32_t pairs_across(const gconv_moments *m, int32_t across) {
  return m->columns - abs(across);
}

static size_t *place_of(const gconv_moments *m, int32_t down, int32_t across) {
  return &m->place[(size_t)down * (size_t)(2 * m->columns - 1) + (size_t)(across + m->columns - 1)];
}

/* Sets the places of the distances. A distance and its opposite share a place. */
static void place_products(gconv_moments *m) {
  size_t used = 0;
  for (int32_t down = 0; down < m->rows; down++)
    for (int32_t across = down == 0 ? 0 : 1 - m->columns; across < m->columns; across++) {
      *place_of(m, down, across) = used;
      used += (size_t)(m->rows - down) * (size_t)pairs_across(m, across);
    }
}

static void add_tasks(gconv_moments_work *w, task like, int32_t begin, int32_t end) {
  for (like.first = begin; like.first < end; like.first += SHIFTS) {
    like.count = (int32_t)least(SHIFTS, (size_t)(end - like.first));
    w->tasks[w->count++] = like;
  }
}

static void make_tasks(const gconv_moments *m, gconv_moments_work *w) {
  for (int32_t row = 0; row < m->rows; row++) {
    add_tasks(w, (task){.kind = PRODUCTS, .row = row, .sign = 1}, 0, m->columns);
    if (row > 0)
      add_tasks(w, (task){.kind = PRODUCTS, .row = row, .sign = -1}, 1, m->columns);
    add_tasks(w, (task){.kind = CROSS, .row = row, .sign = 1}, 0, m->columns);
  }
}

static gconv_status allocate_work(const gconv_moments *m, gconv_moments_work *w) {
  size_t tasks[] = {(size_t)m->rows, 3 * ((size_t)m->columns / SHIFTS + 1), sizeof *w->tasks};
  w->batch = BATCH_SUMS / m->taps < FEWEST_WINDOWS ? FEWEST_WINDOWS : BATCH_SUMS / m->taps;
  size_t windows[] = {m->taps + SHIFTS, w->batch, sizeof *w->windows};
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, tasks), "sums of products", (void **)&w->tasks));
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, windows), "sums of products", (void **)&w->windows));
  memset(w->windows, 0, gconv_checked_product(3, windows));
  make_tasks(m, w);
  return GCONV_OK;
}

static gconv_status allocate(gconv_moments *m) {
  size_t places[] = {(size_t)m->rows, 2 * (size_t)m->columns, sizeof *m->place};
  size_t products[] = {m->taps, m->taps + 1, sizeof *m->products};
  GCONV_TRY(gconv_allocate(sizeof *m->work, "sums of products", (void **)&m->work));
  *m->work = (gconv_moments_work){0};
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, places), "sums of products", (void **)&m->place));
  GCONV_TRY(gconv_allocate(gconv_checked_product(3, products) / 2, "sums of products", (void **)&m->products));
  GCONV_TRY(gconv_allocate(m->taps * sizeof *m->cross, "sums of products", (void **)&m->cross));
  GCONV_TRY(gconv_allocate(m->taps * sizeof *m->sums, "sums of products", (void **)&m->sums));
  return allocate_work(m, m->work);
}

gconv_status gconv_moments_create(int32_t rows, int32_t columns, gconv_moments **moments) {
  gconv_moments *m = NULL;
  GCONV_TRY(gconv_allocate(sizeof *m, "sums of products", (void **)&m));
  *m = (gconv_moments){.rows = rows, .columns = columns, .taps = (size_t)rows * (size_t)columns};
  gconv_status status = allocate(m);
  if (status != GCONV_OK) {
    gconv_moments_free(m);
    return status;
  }
  place_products(m);
  gconv_moments_reset(m);
  *moments = m;
  return GCONV_OK;
}

gconv_status gconv_moments_prepare(gconv_moments *m, int seats) {
  gconv_moments_work *w = m->work;
  size_t lines[] = {(size_t)seats, 2 * SHIFTS, (size_t)m->columns, sizeof *w->lines};
  if (seats <= w->seats)
    return GCONV_OK;
  gconv_release(w->lines);
  w->lines = NULL;
  w->seats = 0;
  GCONV_TRY(gconv_allocate(gconv_checked_product(4, lines), "sums of products", (void **)&w->lines));
  w->seats = seats;
  return GCONV_OK;
}

void gconv_moments_reset(gconv_moments *m) {
  memset(m->products, 0, m->taps * (m->taps + 1) / 2 * sizeof *m->products);
  memset(m->cross, 0, m->taps * sizeof *m->cross);
  memset(m->sums, 0, m->taps * sizeof *m->sums);
  m->target = m->squares = 0;
  m->samples = m->clipped = 0;
}

void gconv_moments_free(gconv_moments *m) {
  if (!m)
    return;
  if (m->work) {
    gconv_release(m->work->tasks);
    gconv_release(m->work->lines);
    gconv_release(m->work->windows);
  }
  gconv_release(m->work);
  gconv_release(m->place);
  gconv_release(m->products);
  gconv_release(m->cross);
  gconv_release(m->sums);
  gconv_release(m);
}

double gconv_moments_product(const gconv_moments *m, size_t a, size_t b) {
  if (a > b)
    return gconv_moments_product(m, b, a);
  size_t columns = (size_t)m->columns;
  int32_t row = (int32_t)(a / columns), column = (int32_t)(a % columns);
  int32_t down = (int32_t)(b / columns) - row, across = (int32_t)(b % columns) - column;
  int32_t first = across < 0 ? column + across : column; /* column of the left tap of the first pair */
  return m->products[*place_of(m, down, across) + (size_t)row * (size_t)pairs_across(m, across) + (size_t)first];
}

/* ---- Sums over all windows ------------------------------------------------------------------------------------------- */

typedef struct adding {
  gconv_moments *moments;
  const gconv_windows *windows;
  size_t excluded; /* windows in work->windows, which are subtracted */
} adding;

static void add_line(double *to, const double *line, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    to[i] += line[i];
}

/* line[i] = the sum for the pair whose left tap is in column i. Each sum follows from the last one. */
static void slide(const double *left, const double *right, double first, int32_t width, int32_t pairs, double *line) {
  line[0] = first;
  for (int32_t i = 1; i < pairs; i++)
    line[i] = line[i - 1] - left[i - 1] * right[i - 1] + left[i - 1 + width] * right[i - 1 + width];
}

/* Multiplies row `upper` of x by the row t->row below it, for each distance of the task. Adds the products to each pair of
 * taps whose upper tap may lie in row `upper`. Rows in the middle of the image count for all pairs: their products are
 * summed in `amid` first. */
static void add_row(const adding *a, const task *t, int32_t upper, double *line, double *amid) {
  gconv_moments *m = a->moments;
  const gconv_windows *w = a->windows;
  const double *up = w->x + (size_t)upper * w->x_stride, *down = up + (size_t)t->row * w->x_stride;
  int32_t last = m->rows - 1 - t->row; /* row of the upper tap */
  bool all = upper >= last && upper < w->height;
  double sums[SHIFTS];
  if (t->sign > 0)
    gconv_dots(up, down + t->first, 1, (size_t)w->width, sums);
  else
    gconv_dots(down, up + t->first, 1, (size_t)w->width, sums);
  for (int32_t k = 0; k < t->count; k++) {
    int32_t distance = t->first + k, pairs = pairs_across(m, distance);
    const double *left = t->sign > 0 ? up : down, *right = (t->sign > 0 ? down : up) + distance;
    slide(left, right, sums[k], w->width, pairs, line);
    if (all)
      add_line(amid + k * m->columns, line, pairs);
    double *to = m->products + *place_of(m, t->row, t->sign * distance);
    for (int32_t r = upper < w->height ? 0 : upper - w->height + 1; !all && r <= last && r <= upper; r++)
      add_line(to + (size_t)r * (size_t)pairs, line, pairs);
  }
}

static void add_products(const adding *a, const task *t, double *lines) {
  gconv_moments *m = a->moments;
  double *amid = lines + m->columns;
  memset(amid, 0, (size_t)SHIFTS * (size_t)m->columns * sizeof *amid);
  for (int32_t upper = 0; upper < a->windows->height + m->rows - 1 - t->row; upper++)
    add_row(a, t, upper, lines, amid);
  for (int32_t k = 0; k < t->count; k++) {
    int32_t pairs = pairs_across(m, t->first + k);
    double *to = m->products + *place_of(m, t->row, t->sign * (t->first + k));
    for (int32_t r = 0; r < m->rows - t->row; r++)
      add_line(to + (size_t)r * (size_t)pairs, amid + k * m->columns, pairs);
  }
}

static void add_cross(const adding *a, const task *t) {
  const gconv_windows *w = a->windows;
  double *cross = a->moments->cross + (size_t)t->row * (size_t)a->moments->columns + (size_t)t->first;
  double *sums = a->moments->sums + (cross - a->moments->cross);
  for (int32_t i = 0; i < w->height; i++) {
    const double *x = w->x + (size_t)(i + t->row) * w->x_stride + t->first;
    double found[SHIFTS];
    gconv_dots(w->t + (size_t)i * w->t_stride, x, 1, (size_t)w->width, found);
    add_line(cross, found, t->count);
    gconv_dots(w->counts + (size_t)i * w->t_stride, x, 1, (size_t)w->width, found);
    add_line(sums, found, t->count);
  }
}

/* Does one turn. The seat's `lines` have 2 * SHIFTS rows. */
static void take_task(void *context, size_t turn, int seat) {
  const adding *a = context;
  const task *t = &a->moments->work->tasks[turn];
  if (t->kind == PRODUCTS)
    add_products(a, t, a->moments->work->lines + (size_t)seat * 2 * SHIFTS * (size_t)a->moments->columns);
  else
    add_cross(a, t);
}

/* ---- Windows that do not count --------------------------------------------------------------------------------------- */

/* Subtracts the products of the windows in work->windows from the sums. work->windows has a row for each tap. */
static void take_off(void *context, size_t turn, int seat) {
  const adding *a = context;
  gconv_moments *m = a->moments;
  const task *t = &m->work->tasks[turn];
  size_t batch = m->work->batch, columns = (size_t)m->columns;
  if (t->kind != PRODUCTS)
    return;
  for (int32_t r = 0; r < m->rows - t->row; r++)
    for (int32_t s = 0; s < m->columns - t->first; s++) { /* s: the left tap, in the upper row or the lower one */
      size_t upper = (size_t)r * columns + (size_t)s, lower = upper + (size_t)t->row * columns, away = (size_t)t->first;
      double found[SHIFTS];
      if (t->sign > 0)
        gconv_dots(m->work->windows + upper * batch, m->work->windows + (lower + away) * batch, batch, a->excluded, found);
      else
        gconv_dots(m->work->windows + lower * batch, m->work->windows + (upper + away) * batch, batch, a->excluded, found);
      for (int32_t k = 0; k < t->count && s < m->columns - t->first - k; k++) {
        int32_t distance = t->first + k;
        m->products[*place_of(m, t->row, t->sign * distance) + (size_t)r * (size_t)pairs_across(m, distance) + (size_t)s] -=
            found[k];
      }
    }
}

static void copy_window(const adding *a, int32_t i, int32_t k) {
  const gconv_moments *m = a->moments;
  const gconv_windows *w = a->windows;
  double *to = m->work->windows + a->excluded;
  for (int32_t r = 0; r < m->rows; r++)
    for (int32_t s = 0; s < m->columns; s++, to += m->work->batch)
      *to = w->x[(size_t)(i + r) * w->x_stride + (size_t)(k + s)];
}

static void exclude(adding *a, gconv_threads *threads) {
  const gconv_windows *w = a->windows;
  gconv_moments_work *work = a->moments->work;
  for (int32_t i = 0; i < w->height; i++)
    for (int32_t k = 0; k < w->width; k++) {
      if (w->counts[(size_t)i * w->t_stride + (size_t)k] != 0)
        continue;
      copy_window(a, i, k);
      a->moments->clipped++;
      if (++a->excluded == work->batch) {
        gconv_threads_run_or_stop(threads, work->count, take_off, a);
        a->excluded = 0;
      }
    }
  if (a->excluded > 0)
    gconv_threads_run_or_stop(threads, work->count, take_off, a);
}

/* ---- Adding windows -------------------------------------------------------------------------------------------------- */

static void add_targets(gconv_moments *m, const gconv_windows *w) {
  for (int32_t i = 0; i < w->height; i++) {
    const double *t = w->t + (size_t)i * w->t_stride, *counts = w->counts + (size_t)i * w->t_stride;
    double squares[SHIFTS], sums[SHIFTS];
    gconv_dots(t, t, 0, (size_t)w->width, squares);
    gconv_dots(counts, t, 0, (size_t)w->width, sums);
    m->squares += squares[0];
    m->target += sums[0];
  }
}

void gconv_moments_add(gconv_moments *m, gconv_threads *threads, const gconv_windows *windows) {
  adding a = {.moments = m, .windows = windows};
  uint64_t before = m->clipped;
  gconv_threads_run_or_stop(threads, m->work->count, take_task, &a);
  exclude(&a, threads);
  add_targets(m, windows);
  m->samples += (uint64_t)windows->height * (uint64_t)windows->width - (m->clipped - before);
}
