/* SPDX-License-Identifier: MIT */
/* Trains machines: one for each pair of classes, or one for regression; on the CPU, or on a GPU. */
#include "svm/machines.h"
#include "base/memory.h"
#include "device/device.h"

#include <string.h>

/* ---- One machine ---- */

/* The variables of a machine. */
typedef struct variables {
  size_t *members;
  uint32_t *member;
  double *numbers; /* c, low, high */
} variables;

static gconv_status make_variables(size_t members, size_t count, variables *v) {
  v->members = malloc(members * sizeof *v->members);
  v->member = malloc(count * sizeof *v->member);
  v->numbers = malloc(3 * count * sizeof *v->numbers);
  return v->members && v->member && v->numbers ? GCONV_OK
                                               : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu variables", count);
}

static void free_variables(variables *v) {
  free(v->members);
  free(v->member);
  free(v->numbers);
}

static gconv_status solve(const gconv_svm_training *t, const variables *v, size_t members, size_t count,
                          gconv_svm_solution *solution) {
  gconv_svm_matrix *matrix = NULL;
  const gconv_svm_problem problem = {.count = count,
                                     .members = members,
                                     .member = v->member,
                                     .c = v->numbers,
                                     .low = v->numbers + count,
                                     .high = v->numbers + 2 * count,
                                     .tolerance = t->settings->given.tolerance,
                                     .most_steps = t->settings->given.most_steps,
                                     .shrinks = !t->settings->given.no_shrinking,
                                     .watch = t->settings->watch,
                                     .control = t->settings->control};
  free(solution->b);
  GCONV_NEW(solution->b, count, "no memory for %zu variables", count);
  solution->steps = 0;
  GCONV_TRY(gconv_svm_matrix_create(&t->formula, t->cases, v->members, members, gconv_svm_working(count, members), &t->place,
                                    &matrix));
  gconv_status status = gconv_svm_solve(&problem, matrix, t->place.threads, solution);
  gconv_svm_matrix_free(matrix);
  gconv_svm_watch_done(t->settings->watch);
  return status;
}

/* Returns the number of cases of the pair's first class, and sets *all to the number of cases of both classes. */
static size_t cases_of_pair(const gconv_svm_training *t, size_t pair, size_t *all) {
  const size_t i = t->firsts[pair], j = t->seconds[pair], first = t->begins[i + 1] - t->begins[i];
  *all = first + t->begins[j + 1] - t->begins[j];
  return first;
}

static double weight_of(const gconv_svm_training *t, size_t number) {
  const double *weights = t->settings->given.case_weights;
  return weights ? weights[number] : 1;
}

static gconv_status make_pair(const gconv_svm_training *t, size_t pair, variables *v) {
  size_t i = t->firsts[pair], j = t->seconds[pair], count, first = cases_of_pair(t, pair, &count);
  GCONV_TRY(make_variables(count, count, v));
  for (size_t k = 0; k < count; k++) {
    bool is_first = k < first;
    v->members[k] = t->sorted[is_first ? t->begins[i] + k : t->begins[j] + k - first];
    v->member[k] = (uint32_t)k;
    v->numbers[k] = is_first ? 1 : -1;
    v->numbers[count + k] = is_first ? 0 : -t->costs[j] * weight_of(t, v->members[k]);
    v->numbers[2 * count + k] = is_first ? t->costs[i] * weight_of(t, v->members[k]) : 0;
  }
  return GCONV_OK;
}

static gconv_status train_pair(const gconv_svm_training *t, size_t pair) {
  size_t count;
  GCONV_ENDED_BY(free_variables) variables v = {0};
  GCONV_TRY(make_pair(t, pair, &v));
  cases_of_pair(t, pair, &count);
  return solve(t, &v, count, count, &t->solutions[pair]);
}

/* Trains the machine of a regression. It has two variables a case: the first grows if the target is above the tube, the
 * second shrinks if the target is below. */
static gconv_status train_regression(const gconv_svm_training *t) {
  size_t cases = t->count, count = 2 * cases;
  const double tube = t->settings->given.tube;
  GCONV_ENDED_BY(free_variables) variables v = {0};
  GCONV_TRY(make_variables(cases, count, &v));
  for (size_t k = 0; k < cases; k++) {
    const double target = (double)t->cases->targets[t->sorted[k]];
    const double cost = t->settings->given.cost * weight_of(t, t->sorted[k]);
    v.members[k] = t->sorted[k];
    v.member[k] = v.member[cases + k] = (uint32_t)k;
    v.numbers[k] = target - tube;
    v.numbers[cases + k] = target + tube;
    v.numbers[count + k] = 0;
    v.numbers[2 * count + k] = cost;
    v.numbers[count + cases + k] = -cost;
    v.numbers[2 * count + cases + k] = 0;
  }
  GCONV_TRY(solve(t, &v, cases, count, &t->solutions[0]));
  for (size_t k = 0; k < cases; k++)
    t->solutions[0].b[k] += t->solutions[0].b[cases + k];
  return GCONV_OK;
}

/* ---- All pairs ---- */

static void pair_turn(void *context, size_t turn, int seat) {
  gconv_svm_training *t = context;
  t->status[turn] = train_pair(t, turn);
  if (t->status[turn] != GCONV_OK)
    strncpy(t->errors[turn], gconv_last_error(), sizeof *t->errors - 1);
}

static gconv_status train_pairs_on_cpu(gconv_svm_training *t, size_t pairs, gconv_threads *threads) {
  enum { A_THREAD = 4 }; /* with so many pairs a thread, one thread trains each pair; with fewer, all threads share a pair */
  size_t all = threads ? (size_t)gconv_threads_count(threads) : 1;
  bool each = pairs >= A_THREAD * all;
  GCONV_FREED void *status = t->status = calloc(pairs, sizeof *t->status);
  GCONV_FREED void *errors = t->errors = calloc(pairs, sizeof *t->errors);
  GCONV_NEED_MEMORY(status && errors, "no memory for %zu pairs", pairs);
  t->place.threads = each ? NULL : threads;
  t->place.cache_bytes = each ? t->settings->given.cache_bytes / all : t->settings->given.cache_bytes;
  gconv_svm_each(each ? threads : NULL, pairs, pair_turn, t);
  for (size_t k = 0; k < pairs; k++)
    if (t->status[k] != GCONV_OK)
      return gconv_set_error(t->status[k], t->errors[k]);
  return GCONV_OK;
}

/* ---- All pairs, on a GPU ---- */

#ifdef GCONV_WITH_CUDA
/* A pair whose machine one block of threads trains. */
typedef struct small_pair {
  size_t pair;
  variables variables;
} small_pair;

typedef struct small_pairs {
  const gconv_svm_training *t;
  gconv_svm_gpu_pair *pairs;
  small_pair *own;
  size_t count;
} small_pairs;

static void end_pair(void *context, gconv_svm_gpu_pair *done) {
  const small_pairs *all = context;
  const small_pair *own = &all->own[done - all->pairs];
  const size_t count = done->count;
  const double *numbers = own->variables.numbers;
  const gconv_svm_problem problem = {.count = count,
                                     .members = count,
                                     .member = own->variables.member,
                                     .c = numbers,
                                     .low = numbers + count,
                                     .high = numbers + 2 * count};
  all->t->solutions[own->pair].steps = done->steps;
  if (done->failed)
    gconv_svm_warn_missed(done->largest - done->smallest);
  gconv_svm_conclude(&problem, done->g, done->largest, done->smallest, &all->t->solutions[own->pair]);
  gconv_svm_watch_done(all->t->settings->watch);
}

static gconv_status add_small(small_pairs *all, size_t pair) {
  const gconv_svm_training *t = all->t;
  size_t count, first = cases_of_pair(t, pair, &count);
  small_pair *own = &all->own[all->count];
  gconv_svm_solution *solution = &t->solutions[pair];
  double *numbers = malloc(2 * count * sizeof *numbers); /* diagonal, g */
  own->pair = pair;
  all->pairs[all->count] = (gconv_svm_gpu_pair){.diagonal = numbers};
  all->count++;
  free(solution->b);
  solution->b = malloc(count * sizeof *solution->b);
  GCONV_NEED_MEMORY(numbers && solution->b, "no memory for %zu variables", count);
  GCONV_TRY(make_pair(t, pair, &own->variables));
  for (size_t k = 0; k < count; k++)
    numbers[k] = gconv_svm_diagonal(&t->formula, t->cases->rows[own->variables.members[k]].norm);
  all->pairs[all->count - 1] = (gconv_svm_gpu_pair){.members = own->variables.members,
                                                    .count = count,
                                                    .first = first,
                                                    .first_cost = t->costs[t->firsts[pair]],
                                                    .second_cost = t->costs[t->seconds[pair]],
                                                    .diagonal = numbers,
                                                    .b = solution->b,
                                                    .g = numbers + count};
  return GCONV_OK;
}

/* Whether a block of threads trains a pair of `count` cases: it has one cost for each class, and its own limit of steps. */
static bool is_small(const gconv_svm_training *t, size_t count) {
  return !t->settings->given.case_weights && t->settings->given.most_steps == 0 && gconv_svm_gpu_takes(t->place.gpu, count);
}

/* Trains the pairs on the GPU: many small pairs at a time, each by a block of threads; then the large pairs, one by one. */
static gconv_status train_pairs_on_gpu(gconv_svm_training *t, size_t pairs) {
  small_pairs all = {.t = t};
  size_t count;
  all.pairs = calloc(pairs, sizeof *all.pairs);
  all.own = calloc(pairs, sizeof *all.own);
  gconv_status status = all.pairs && all.own ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu pairs", pairs);
  for (size_t k = 0; k < pairs && status == GCONV_OK; k++) {
    cases_of_pair(t, k, &count);
    if (is_small(t, count))
      status = add_small(&all, k);
  }
  GCONV_THEN(status,
             gconv_svm_gpu_solve_pairs(t->place.gpu, all.pairs, all.count, t->settings->given.tolerance, end_pair, &all));
  for (size_t k = 0; k < all.count; k++) {
    free((double *)all.pairs[k].diagonal);
    free_variables(&all.own[k].variables);
  }
  free(all.pairs);
  free(all.own);
  for (size_t k = 0; k < pairs && status == GCONV_OK; k++) {
    cases_of_pair(t, k, &count);
    if (!is_small(t, count))
      status = train_pair(t, k);
  }
  return status;
}
#else
static gconv_status train_pairs_on_gpu(gconv_svm_training *t, size_t pairs) {
  return GCONV_UNSUPPORTED;
}
#endif

static gconv_status train_pairs(gconv_svm_training *t, size_t pairs, gconv_threads *threads) {
  GCONV_FREED size_t *firsts = NULL;
  GCONV_NEW(firsts, 2 * pairs, "no memory for %zu pairs", pairs);
  t->firsts = firsts;
  t->seconds = firsts + pairs;
  for (size_t i = 0, k = 0; i < t->class_count; i++)
    for (size_t j = i + 1; j < t->class_count; j++, k++) {
      t->firsts[k] = i;
      t->seconds[k] = j;
    }
  return t->place.gpu ? train_pairs_on_gpu(t, pairs) : train_pairs_on_cpu(t, pairs, threads);
}

/* ---- All machines ---- */

static gconv_status train_on_cpu(gconv_svm_training *t, size_t machines, gconv_device *device) {
  t->place = (gconv_svm_place){.threads = gconv_device_threads(device), .cache_bytes = t->settings->given.cache_bytes};
  return t->class_count > 0 ? train_pairs(t, machines, t->place.threads) : train_regression(t);
}

#ifdef GCONV_WITH_CUDA
static gconv_status train_on_gpu(gconv_svm_training *t, size_t machines, gconv_device *device) {
  gconv_svm_gpu *gpu = NULL;
  gconv_status status = gconv_svm_gpu_create(device, &t->formula, t->cases->rows, t->cases->count, t->cases->columns, &gpu);
  t->place = (gconv_svm_place){.threads = gconv_device_threads(device),
                               .gpu = gpu,
                               .cache_bytes = t->settings->own_cache ? t->settings->given.cache_bytes : 0};
  GCONV_THEN(status, t->class_count > 0 ? train_pairs(t, machines, t->place.threads) : train_regression(t));
  gconv_svm_gpu_free(gpu);
  t->on_gpu = status == GCONV_OK;
  return status;
}

/* Trains on the device, or on the CPU if the device cannot. */
gconv_status gconv_svm_train_machines(gconv_svm_training *t, size_t machines, gconv_device *device) {
  if (!gconv_svm_gpu_computes(device, &t->formula))
    return train_on_cpu(t, machines, device);
  gconv_svm_watch *watch = t->settings->watch;
  const size_t done = watch ? watch->now.done : 0;
  gconv_status status = train_on_gpu(t, machines, device);
  if (status != GCONV_NO_MEMORY)
    return status;
  if (watch)
    watch->now.done = done; /* the CPU trains all machines again */
  gconv_warn_once("trained on the CPU", "the CPU trains instead of the GPU: %s", gconv_last_error());
  return train_on_cpu(t, machines, device);
}
#else
gconv_status gconv_svm_train_machines(gconv_svm_training *t, size_t machines, gconv_device *device) {
  return train_on_cpu(t, machines, device);
}
#endif
