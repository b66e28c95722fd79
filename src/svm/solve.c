/* SPDX-License-Identifier: MIT */
/*
 * The solver. In each round, the variables that violate the conditions of the optimum most become the working set. Its small
 * problem is solved with all its kernel values in memory (kernels/cpu/svm/pairs.h). Then the rows of the variables that
 * changed update the gradients of all variables. Gradients are float64. Of variables that are equally good, the one with the
 * lowest number comes first. Results do not depend on threads.
 */
#include "base/memory.h"
#include "svm/svm.h"

#include <math.h>
#include <string.h>

enum {
  WHOLE = 2048,            /* a problem of at most so many variables is a single working set */
  WORKING_BYTES = 1 << 28, /* the most bytes of the rows of a working set with more than LEAST variables */
  SHRINK_EVERY = 8         /* rounds after which the solver checks whether half of the variables have settled */
};

/* A variable that may be chosen; a larger key is better. */
typedef struct candidate {
  double key;
  uint32_t variable;
} candidate;

typedef struct solving {
  const gconv_svm_problem *problem;
  gconv_svm_matrix *matrix;
  gconv_threads *threads;
  double *b;
  size_t most;              /* the most variables of a working set */
  double *g;                /* -Kb of each member, padded: F = c + g */
  double largest, smallest; /* largest: the largest F of variables that may grow; smallest: the smallest F of variables that
                               may shrink */
  uint32_t *working, *before; /* working: the working set of this round, ascending; before: that of the previous round, the
                                 violators that were new in it first */
  size_t count, before_count;
  uint8_t *taken; /* for each variable: 1 if it is in the working set */
  candidate *candidates;
  uint32_t *wanted;
  const float **rows, **moved;
  double *by;
  size_t moved_count;
  bool direct;  /* the working set is the whole matrix, whose rows need no copy */
  float *block; /* kernel values of the working set */
  const float **block_rows;
  double *numbers; /* seven arrays of numbers of the working set */
} solving;

size_t gconv_svm_working(size_t count, size_t members) {
  enum { LEAST = 16 };
  size_t most = WORKING_BYTES / (gconv_svm_padded(members) * sizeof(float));
  if (count <= WHOLE)
    return count;
  most = most < LEAST ? LEAST : most;
  return most < GCONV_SVM_WORKING ? most / 2 * 2 : GCONV_SVM_WORKING;
}

/* ---- Choosing the working set ---- */

static double gradient(const solving *s, size_t v) {
  return s->problem->c[v] + s->g[s->problem->member[v]];
}

static bool is_better(candidate a, candidate b) {
  return a.key > b.key || (a.key == b.key && a.variable < b.variable);
}

/* Moves the best `want` candidates to the front (Hoare's quickselect). */
static void select_best(candidate *items, size_t count, size_t want) {
  size_t low = 0, high = count;
  while (high - low > 1 && want > low && want < high) {
    candidate pivot = items[low + (high - low - 1) / 2]; /* never the last item, so that neither part is empty */
    size_t i = low, j = high - 1;
    for (;; i++, j--) {
      while (is_better(items[i], pivot))
        i++;
      while (is_better(pivot, items[j]))
        j--;
      if (i >= j)
        break;
      candidate swap = items[i];
      items[i] = items[j];
      items[j] = swap;
    }
    if (want <= j + 1) /* low .. j are at least as good as j + 1 .. high */
      high = j + 1;
    else
      low = j + 1;
  }
}

static void take(solving *s, uint32_t variable) {
  if (s->count < s->most && !s->taken[variable]) {
    s->taken[variable] = 1;
    s->working[s->count++] = variable;
  }
}

/* Adds up to `want` of the worst violators to the working set: variables that may grow or, if `sign` is -1, may shrink. */
static void take_violators(solving *s, double sign, size_t want) {
  const gconv_svm_problem *p = s->problem;
  size_t count = 0;
  double limit = sign > 0 ? s->smallest : -s->largest;
  for (size_t v = 0; v < p->count; v++) {
    double key = sign * gradient(s, v);
    if (key > limit && (sign > 0 ? s->b[v] < p->high[v] : s->b[v] > p->low[v]))
      s->candidates[count++] = (candidate){key, (uint32_t)v};
  }
  want = want < count ? want : count;
  select_best(s->candidates, count, want);
  for (size_t i = 0; i < want; i++)
    take(s, s->candidates[i].variable);
}

static int compare_numbers(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

static void choose_working_set(solving *s) {
  const size_t fresh = s->most / 2;
  s->count = 0;
  if (s->problem->count <= s->most) {
    for (size_t v = 0; v < s->problem->count; v++)
      s->working[s->count++] = (uint32_t)v;
    return;
  }
  take_violators(s, 1, fresh / 2);
  take_violators(s, -1, fresh / 2);
  qsort(s->working, s->count, sizeof *s->working, compare_numbers);
  for (size_t i = 0; i < s->before_count; i++)
    take(s, s->before[i]);
  for (size_t i = 0; i < s->count; i++)
    s->taken[s->working[i]] = 0;
  memcpy(s->before, s->working, s->count * sizeof *s->before);
  s->before_count = s->count;
  qsort(s->working, s->count, sizeof *s->working, compare_numbers);
}

/* Returns the gap: by how much the conditions of the optimum are violated. */
static double find_gap(solving *s) {
  const gconv_svm_problem *p = s->problem;
  s->largest = -(double)INFINITY;
  s->smallest = (double)INFINITY;
  for (size_t v = 0; v < p->count; v++) {
    double F = gradient(s, v);
    s->largest = s->b[v] < p->high[v] && F > s->largest ? F : s->largest;
    s->smallest = s->b[v] > p->low[v] && F < s->smallest ? F : s->smallest;
  }
  return s->largest - s->smallest;
}

/* ---- A round ---- */

/* Fills the small problem of the working set. */
static gconv_svm_small make_small(solving *s) {
  const gconv_svm_problem *p = s->problem;
  size_t pitch = gconv_svm_padded(s->most), padded = gconv_svm_padded(s->count);
  double *diagonal = s->numbers, *low = diagonal + pitch, *high = low + pitch, *b = high + pitch, *F = b + pitch;
  for (size_t k = 0; k < s->count; k++) {
    uint32_t v = s->working[k];
    diagonal[k] = gconv_svm_matrix_diagonal(s->matrix, p->member[v]);
    low[k] = p->low[v];
    high[k] = p->high[v];
    b[k] = s->b[v];
    F[k] = gradient(s, v);
    if (gconv_svm_matrix_on_gpu(s->matrix))
      continue; /* the GPU gathers the block */
    s->block_rows[k] = s->rows[k];
    if (s->direct)
      continue;
    float *to = s->block + k * pitch;
    for (size_t i = 0; i < s->count; i++)
      to[i] = s->rows[k][s->wanted[i]];
    for (size_t i = s->count; i < padded; i++)
      to[i] = 0;
    s->block_rows[k] = to;
  }
  return (gconv_svm_small){.count = s->count,
                           .rows = s->block_rows,
                           .diagonal = diagonal,
                           .low = low,
                           .high = high,
                           .b = b,
                           .F = F,
                           .up = F + pitch,
                           .down = F + 2 * pitch};
}

enum { UPDATE_BLOCKS = 16 };

static void update_turn(void *context, size_t turn, int seat) {
  solving *s = context;
  size_t all = gconv_svm_padded(s->problem->members), first = turn * UPDATE_BLOCKS * GCONV_SVM_BLOCK;
  size_t end = all - first < UPDATE_BLOCKS * GCONV_SVM_BLOCK ? all : first + UPDATE_BLOCKS * GCONV_SVM_BLOCK;
  gconv_svm_subtract_rows(s->moved, s->by, s->moved_count, first, end, s->g);
}

/* Subtracts the rows of moved[] from the gradients. */
static void update(solving *s) {
  size_t blocks = gconv_svm_padded(s->problem->members) / GCONV_SVM_BLOCK;
  if (s->moved_count > 0)
    gconv_svm_each(s->threads, (blocks + UPDATE_BLOCKS - 1) / UPDATE_BLOCKS, update_turn, s);
}

static double small_gap(const gconv_svm_small *small) {
  double largest = -(double)INFINITY, smallest = (double)INFINITY;
  for (size_t k = 0; k < small->count; k++) {
    largest = fmax(largest, small->F[k] + small->up[k]);
    smallest = fmin(smallest, small->F[k] + small->down[k]);
  }
  return largest - smallest;
}

static gconv_status check_control(const solving *s) {
  return gconv_control_stops(s->problem->control) ? gconv_control_fail(s->problem->control) : GCONV_OK;
}

/* Solves the small problem, and updates the gradients. If that takes long, progress is reported between steps. */
static gconv_status solve_on_cpu(solving *s, const gconv_svm_small *small, double tolerance, uint64_t most,
                                 uint64_t *steps) {
  enum { STEPS = 1 << 14 };
  uint64_t taken = STEPS;
  for (*steps = 0; *steps < most && taken == STEPS; *steps += taken) {
    GCONV_TRY(check_control(s));
    if (*steps > 0)
      gconv_svm_watch_gap(s->problem->watch, small_gap(small));
    taken = gconv_svm_solve_small(small, tolerance, most - *steps < STEPS ? most - *steps : STEPS);
  }
  s->moved_count = 0;
  for (size_t k = 0; k < s->count; k++) {
    uint32_t v = s->working[k];
    if (small->b[k] != s->b[v]) {
      s->moved[s->moved_count] = s->rows[k];
      s->by[s->moved_count++] = small->b[k] - s->b[v];
    }
  }
  update(s);
  return GCONV_OK;
}

static gconv_status do_round(solving *s, double gap, uint64_t most_steps, uint64_t *steps) {
  const gconv_svm_problem *p = s->problem;
  const bool whole = p->count <= s->most, there = gconv_svm_matrix_on_gpu(s->matrix);
  choose_working_set(s);
  for (size_t k = 0; k < s->count; k++)
    s->wanted[k] = p->member[s->working[k]];
  if (!there)
    GCONV_TRY(gconv_svm_matrix_rows(s->matrix, s->wanted, s->count, s->rows));
  gconv_svm_small small = make_small(s);
  const double enough = whole ? p->tolerance : fmax(0.1 * gap, 0.5 * p->tolerance);
  GCONV_TRY(there ? gconv_svm_matrix_solve(s->matrix, s->wanted, &small, enough, most_steps, steps, s->g)
                  : solve_on_cpu(s, &small, enough, most_steps, steps));
  for (size_t k = 0; k < s->count; k++)
    s->b[s->working[k]] = small.b[k];
  return GCONV_OK;
}

/* ---- Memory and results ---- */

static gconv_status allocate(solving *s) {
  size_t n = s->problem->count, q = s->most, pitch = gconv_svm_padded(q);
  s->direct = n <= q && n == s->problem->members;
  if (!s->direct && !gconv_svm_matrix_on_gpu(s->matrix))
    GCONV_TRY(gconv_allocate(q * pitch * sizeof *s->block, "a working set", (void **)&s->block));
  GCONV_TRY(gconv_allocate(7 * pitch * sizeof *s->numbers, "a working set", (void **)&s->numbers));
  s->working = malloc(2 * q * sizeof *s->working);
  s->taken = calloc(n, sizeof *s->taken);
  s->candidates = malloc(n * sizeof *s->candidates);
  s->wanted = malloc(q * sizeof *s->wanted);
  s->rows = malloc(3 * q * sizeof *s->rows);
  s->by = malloc(q * sizeof *s->by);
  GCONV_NEED_MEMORY(s->working && s->taken && s->candidates && s->wanted && s->rows && s->by,
                    "no memory for a problem of %zu variables", n);
  s->before = s->working + q;
  s->moved = s->rows + q;
  s->block_rows = s->rows + 2 * q;
  return GCONV_OK;
}

void gconv_svm_conclude(const gconv_svm_problem *p, const double *g, double largest, double smallest,
                        gconv_svm_solution *solution) {
  const double *b = solution->b;
  double sum = 0, objective = 0;
  size_t free_ones = 0, bounded = 0;
  for (size_t v = 0; v < p->count; v++) {
    const double of_member = g[p->member[v]], F = p->c[v] + of_member;
    objective += b[v] * (-0.5 * of_member - p->c[v]);
    if (b[v] > p->low[v] && b[v] < p->high[v]) {
      sum += F;
      free_ones++;
    }
    bounded += b[v] != 0 && (b[v] == p->low[v] || b[v] == p->high[v]);
  }
  solution->rho = free_ones > 0 ? -sum / (double)free_ones : -(largest + smallest) / 2;
  solution->objective = objective;
  solution->bounded = bounded;
}

static void release(solving *s) {
  gconv_release(s->block);
  gconv_release(s->numbers);
  free(s->working);
  free(s->taken);
  free(s->candidates);
  free(s->wanted);
  free(s->rows);
  free(s->by);
}

/* ---- Shrinking ---- */

static gconv_status optimize(solving *s, gconv_svm_solution *solution);

/* A problem of the active variables only. The other variables keep their values, which are part of the gradients g. */
typedef struct part {
  size_t count, members;
  uint32_t *variables; /* of each variable of the part: its number in the whole problem */
  uint32_t *member;    /* of each variable of the part: its member of the part */
  uint32_t *of;        /* of each member of the part: its member of the whole problem */
  double *numbers;     /* c, low, high and b of the part */
  double *g;
} part;

/* True if a variable may still move: it is between its bounds, or its gradient points away from the bound where it is. */
static bool is_active(const solving *s, size_t v) {
  const gconv_svm_problem *p = s->problem;
  bool grows = s->b[v]<p->high[v], shrinks = s->b[v]> p->low[v];
  double F = gradient(s, v);
  return (grows && shrinks) || (grows && F >= s->smallest) || (shrinks && F <= s->largest);
}

static void free_part(part *q) {
  free(q->variables);
  free(q->of);
  free(q->numbers);
  gconv_release(q->g);
}

static gconv_status make_part(const solving *s, size_t active, part *q) {
  const gconv_svm_problem *p = s->problem;
  GCONV_FREED uint32_t *new_of = malloc(p->members * sizeof *new_of);
  q->variables = malloc(2 * active * sizeof *q->variables);
  q->of = malloc(active * sizeof *q->of);
  q->numbers = malloc(4 * active * sizeof *q->numbers);
  GCONV_ALLOCATE(q->g, gconv_svm_padded(active) * sizeof *q->g, "gradients");
  GCONV_NEED_MEMORY(new_of && q->variables && q->of && q->numbers, "no memory for a problem of %zu variables", active);
  q->member = q->variables + active;
  for (size_t m = 0; m < p->members; m++)
    new_of[m] = UINT32_MAX;
  for (size_t v = 0; v < p->count; v++) {
    uint32_t m = p->member[v];
    if (!is_active(s, v))
      continue;
    if (new_of[m] == UINT32_MAX) {
      q->g[q->members] = s->g[m];
      q->of[q->members] = m;
      new_of[m] = (uint32_t)q->members++;
    }
    size_t k = q->count++;
    q->variables[k] = (uint32_t)v;
    q->member[k] = new_of[m];
    q->numbers[k] = p->c[v];
    q->numbers[active + k] = p->low[v];
    q->numbers[2 * active + k] = p->high[v];
    q->numbers[3 * active + k] = s->b[v];
  }
  for (size_t m = q->members; m < gconv_svm_padded(q->members); m++)
    q->g[m] = 0;
  return GCONV_OK;
}

/* Copies the values of a solved part to the whole, and updates the gradients of all members. */
static gconv_status take_part(solving *s, const part *q) {
  const double *b = q->numbers + 3 * q->count;
  for (size_t k = 0; k < q->count;) {
    size_t moved = 0;
    for (; k < q->count && moved < s->most; k++) {
      uint32_t v = q->variables[k];
      if (b[k] != s->b[v]) {
        s->wanted[moved] = s->problem->member[v];
        s->by[moved++] = b[k] - s->b[v];
        s->b[v] = b[k];
      }
    }
    if (moved > 0 && gconv_svm_matrix_on_gpu(s->matrix)) {
      GCONV_TRY(gconv_svm_matrix_subtract(s->matrix, s->wanted, s->by, moved, s->g));
      continue;
    }
    if (moved > 0)
      GCONV_TRY(gconv_svm_matrix_rows(s->matrix, s->wanted, moved, s->moved));
    s->moved_count = moved;
    update(s);
  }
  return GCONV_OK;
}

static gconv_status solve_part(solving *s, size_t active, gconv_svm_solution *solution) {
  GCONV_ENDED_BY(free_part) part q = {0};
  gconv_svm_matrix *matrix = NULL;
  gconv_status status = make_part(s, active, &q);
  const gconv_svm_problem problem = {.count = q.count,
                                     .members = q.members,
                                     .member = q.member,
                                     .c = q.numbers,
                                     .low = q.numbers + active,
                                     .high = q.numbers + 2 * active,
                                     .tolerance = s->problem->tolerance,
                                     .most_steps = s->problem->most_steps,
                                     .shrinks = true,
                                     .watch = s->problem->watch,
                                     .control = s->problem->control};
  solving inner = {.problem = &problem, .threads = s->threads, .b = q.numbers + 3 * active, .g = q.g};
  inner.most = gconv_svm_working(q.count, q.members);
  GCONV_THEN(status, gconv_svm_matrix_part(s->matrix, q.of, q.members, inner.most, &matrix));
  inner.matrix = matrix;
  GCONV_THEN(status, allocate(&inner));
  GCONV_THEN(status, gconv_svm_matrix_begin(matrix, q.g));
  GCONV_THEN(status, optimize(&inner, solution));
  release(&inner);
  gconv_svm_matrix_free(matrix);
  GCONV_THEN(status, take_part(s, &q));
  return status;
}

/* Solves the problem of the active variables, if they are at most half of all. */
static gconv_status shrink(solving *s, gconv_svm_solution *solution) {
  size_t active = 0;
  if (find_gap(s) < s->problem->tolerance)
    return GCONV_OK;
  for (size_t v = 0; v < s->problem->count; v++)
    active += is_active(s, v);
  return 2 * active <= s->problem->count ? solve_part(s, active, solution) : GCONV_OK;
}

/* ---- The rounds ---- */

void gconv_svm_warn_missed(double gap) {
  gconv_warn_once("not converged",
                  "training ended before the tolerance was reached: the conditions of the optimum are missed by %.3g. "
                  "Scale the columns (--scale), or take a smaller C",
                  gap);
}

static gconv_status optimize(solving *s, gconv_svm_solution *solution) {
  const gconv_svm_problem *p = s->problem;
  const bool whole = p->count <= s->most;
  const uint64_t most = p->most_steps > 0 ? p->most_steps : solution->steps + gconv_svm_most_steps(p->count);
  bool ended = false; /* no more steps */
  double gap;
  for (uint64_t round = 1; (gap = find_gap(s)) >= p->tolerance && !ended; round++) {
    uint64_t steps, left = solution->steps < most ? most - solution->steps : 0; /* a part may have passed `most` */
    left = whole || left < 100 * s->most ? left : 100 * s->most;
    gconv_svm_watch_gap(p->watch, gap);
    GCONV_TRY(check_control(s));
    GCONV_TRY(do_round(s, gap, left, &steps));
    solution->steps += steps;
    ended = solution->steps >= most || steps == 0;
    if (!ended && p->shrinks && !whole && round % SHRINK_EVERY == 0)
      GCONV_TRY(shrink(s, solution));
  }
  if (ended && gap >= p->tolerance && p->most_steps == 0)
    gconv_svm_warn_missed(gap);
  return GCONV_OK;
}

gconv_status gconv_svm_solve(const gconv_svm_problem *problem, gconv_svm_matrix *matrix, gconv_threads *threads,
                             gconv_svm_solution *solution) {
  size_t bytes = gconv_svm_padded(problem->members) * sizeof(double);
  solving s = {.problem = problem,
               .matrix = matrix,
               .threads = threads,
               .b = solution->b,
               .most = gconv_svm_working(problem->count, problem->members)};
  gconv_status status = gconv_allocate(bytes, "gradients", (void **)&s.g);
  if (status == GCONV_OK) {
    memset(s.g, 0, bytes);
    memset(s.b, 0, problem->count * sizeof *s.b);
    status = allocate(&s);
  }
  GCONV_THEN(status, gconv_svm_matrix_begin(matrix, s.g));
  GCONV_THEN(status, optimize(&s, solution));
  if (status == GCONV_OK)
    gconv_svm_conclude(problem, s.g, s.largest, s.smallest, solution);
  release(&s);
  gconv_release(s.g);
  return status;
}
