/* SPDX-License-Identifier: MIT */
/* Trains support vector machines: one for each pair of classes, or one for numbers. */
#include "base/arguments.h"
#include "base/memory.h"
#include "device/device.h"
#include "learn/svm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

static gconv_status check_number(const char *what, double value, bool above_zero) {
  if (isfinite(value) && (!above_zero || value >= 0))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s is %g: it must be a number%s", what, value, above_zero ? " above 0" : "");
}

gconv_status gconv_svm_settle(const gconv_svm_options *options, size_t columns, gconv_svm_settings *settings) {
  gconv_svm_options *o = &settings->given;
  *o = options ? *options : (gconv_svm_options){0};
  GCONV_TRY(gconv_check_value("type", o->type, GCONV_SVM_C_SVC, GCONV_SVM_EPSILON_SVR));
  GCONV_TRY(gconv_check_value("kernel", o->kernel, GCONV_SVM_RBF, GCONV_SVM_SIGMOID));
  GCONV_TRY(gconv_check_value("scaling", o->scaling, GCONV_SVM_UNSCALED, GCONV_SVM_SCALE_STANDARD));
  GCONV_TRY(gconv_check_value("degree", o->degree, 0, 1000));
  GCONV_TRY(check_number("gamma", o->gamma, true));
  GCONV_TRY(check_number("coef0", o->coef0, false));
  GCONV_TRY(check_number("cost", o->cost, true));
  GCONV_TRY(check_number("tube", o->tube, false));
  GCONV_TRY(check_number("tolerance", o->tolerance, true));
  if (o->weight_count > 0)
    GCONV_NEED_AS(o->weights, "weights");
  for (size_t i = 0; i < o->weight_count; i++) {
    GCONV_NEED_AS(o->weights[i].class_name, "class_name");
    if (!(o->weights[i].weight > 0) || !isfinite(o->weights[i].weight))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the weight of class %s is %g: it must be a number above 0",
                        o->weights[i].class_name, o->weights[i].weight);
  }
  settings->watch = NULL;
  o->degree = o->degree == 0 ? 3 : o->degree;
  o->gamma = o->gamma == 0 ? 1 / (double)columns : o->gamma;
  o->cost = o->cost == 0 ? 1 : o->cost;
  o->tube = o->tube == 0 ? 0.1 : o->tube < 0 ? 0 : o->tube;
  o->tolerance = o->tolerance == 0 ? 0.001 : o->tolerance;
  settings->own_cache = o->cache_bytes > 0;
  o->cache_bytes = o->cache_bytes == 0 ? 200000000 : o->cache_bytes;
  return GCONV_OK;
}

double gconv_svm_cost_of(const gconv_svm_settings *settings, const char *class_name) {
  const gconv_svm_options *o = &settings->given;
  double cost = o->cost;
  for (size_t i = 0; i < o->weight_count; i++)
    if (strcmp(o->weights[i].class_name, class_name) == 0)
      cost = o->cost * o->weights[i].weight;
  return cost;
}

/* ---- Progress ---- */

void gconv_svm_watch_done(gconv_svm_watch *watch) {
  if (!watch || !watch->progress)
    return;
  pthread_mutex_lock(&watch->lock);
  watch->now.done++;
  watch->progress(watch->user, &watch->now);
  pthread_mutex_unlock(&watch->lock);
}

void gconv_svm_watch_gap(gconv_svm_watch *watch, double gap) {
  if (!watch || !watch->progress)
    return;
  pthread_mutex_lock(&watch->lock);
  watch->now.gap = gap;
  watch->progress(watch->user, &watch->now);
  pthread_mutex_unlock(&watch->lock);
}

/* ---- One machine ---- */

/* What training has at hand. */
typedef struct training {
  const gconv_svm_settings *settings;
  const gconv_svm_cases *cases;
  gconv_svm_formula formula;
  const size_t *sorted; /* cases, by class */
  size_t count;
  size_t class_count;
  const size_t *begins;   /* of each class in sorted, and the end */
  const double *costs;    /* of the classes */
  gconv_svm_place place;
  gconv_svm_solution *solutions;
  size_t *firsts, *seconds; /* the classes of each pair */
  gconv_status *status;
  char (*errors)[256];
} training;

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

static gconv_status solve(const training *t, const variables *v, size_t members, size_t count,
                          gconv_svm_solution *solution) {
  gconv_svm_matrix *matrix = NULL;
  const gconv_svm_problem problem = {.count = count,
                                     .members = members,
                                     .member = v->member,
                                     .c = v->numbers,
                                     .low = v->numbers + count,
                                     .high = v->numbers + 2 * count,
                                     .tolerance = t->settings->given.tolerance,
                                     .shrinks = !t->settings->given.no_shrinking,
                                     .watch = t->settings->watch};
  free(solution->b);
  solution->b = malloc(count * sizeof *solution->b);
  if (!solution->b)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu variables", count);
  solution->steps = 0;
  GCONV_TRY(gconv_svm_matrix_create(&t->formula, t->cases, v->members, members, gconv_svm_working(count, members),
                                    &t->place, &matrix));
  gconv_status status = gconv_svm_solve(&problem, matrix, t->place.threads, solution);
  gconv_svm_matrix_free(matrix);
  gconv_svm_watch_done(t->settings->watch);
  return status;
}

/* The cases of the pair's first class, and of both. */
static size_t cases_of_pair(const training *t, size_t pair, size_t *all) {
  const size_t i = t->firsts[pair], j = t->seconds[pair], first = t->begins[i + 1] - t->begins[i];
  *all = first + t->begins[j + 1] - t->begins[j];
  return first;
}

static gconv_status make_pair(const training *t, size_t pair, variables *v) {
  size_t i = t->firsts[pair], j = t->seconds[pair], count, first = cases_of_pair(t, pair, &count);
  GCONV_TRY(make_variables(count, count, v));
  for (size_t k = 0; k < count; k++) {
    bool is_first = k < first;
    v->members[k] = t->sorted[is_first ? t->begins[i] + k : t->begins[j] + k - first];
    v->member[k] = (uint32_t)k;
    v->numbers[k] = is_first ? 1 : -1;
    v->numbers[count + k] = is_first ? 0 : -t->costs[j];
    v->numbers[2 * count + k] = is_first ? t->costs[i] : 0;
  }
  return GCONV_OK;
}

static gconv_status train_pair(const training *t, size_t pair) {
  size_t count;
  variables v = {0};
  gconv_status status = make_pair(t, pair, &v);
  cases_of_pair(t, pair, &count);
  if (status == GCONV_OK)
    status = solve(t, &v, count, count, &t->solutions[pair]);
  free_variables(&v);
  return status;
}

/* Two variables a case: one grows where the target is above the tube, one shrinks where it is below. */
static gconv_status train_regression(const training *t) {
  size_t cases = t->count, count = 2 * cases;
  const double tube = t->settings->given.tube, cost = t->settings->given.cost;
  variables v = {0};
  gconv_status status = make_variables(cases, count, &v);
  for (size_t k = 0; k < cases && status == GCONV_OK; k++) {
    double target = (double)t->cases->targets[t->sorted[k]];
    v.members[k] = t->sorted[k];
    v.member[k] = v.member[cases + k] = (uint32_t)k;
    v.numbers[k] = target - tube;
    v.numbers[cases + k] = target + tube;
    v.numbers[count + k] = 0;
    v.numbers[2 * count + k] = cost;
    v.numbers[count + cases + k] = -cost;
    v.numbers[2 * count + cases + k] = 0;
  }
  if (status == GCONV_OK)
    status = solve(t, &v, cases, count, &t->solutions[0]);
  for (size_t k = 0; k < cases && status == GCONV_OK; k++)
    t->solutions[0].b[k] += t->solutions[0].b[cases + k];
  free_variables(&v);
  return status;
}

/* ---- All pairs ---- */

static void pair_turn(void *context, size_t turn, int seat) {
  training *t = context;
  (void)seat;
  t->status[turn] = train_pair(t, turn);
  if (t->status[turn] != GCONV_OK)
    strncpy(t->errors[turn], gconv_last_error(), sizeof *t->errors - 1);
}

static gconv_status train_pairs_here(training *t, size_t pairs, gconv_threads *threads) {
  enum { A_THREAD = 4 }; /* with so many pairs a thread, each pair has a thread of its own */
  size_t all = threads ? (size_t)gconv_threads_count(threads) : 1;
  bool each = pairs >= A_THREAD * all;
  gconv_status status = GCONV_OK;
  t->status = calloc(pairs, sizeof *t->status);
  t->errors = calloc(pairs, sizeof *t->errors);
  if (!t->status || !t->errors)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for %zu pairs", pairs);
  t->place.threads = each ? NULL : threads;
  t->place.cache_bytes = each ? t->settings->given.cache_bytes / all : t->settings->given.cache_bytes;
  if (status == GCONV_OK)
    gconv_svm_each(each ? threads : NULL, pairs, pair_turn, t);
  for (size_t k = 0; k < pairs && status == GCONV_OK; k++)
    status = t->status[k] == GCONV_OK ? GCONV_OK : gconv_set_error(t->status[k], t->errors[k]);
  free(t->status);
  free(t->errors);
  return status;
}

/* ---- All pairs, on a GPU ---- */

#ifdef GCONV_WITH_CUDA
/* A pair whose machine a block of threads trains, and what its results belong to. */
typedef struct small_pair {
  size_t pair;
  variables variables;
} small_pair;

typedef struct small_pairs {
  const training *t;
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
  if (done->failed)
    gconv_svm_warn_missed(done->largest - done->smallest);
  gconv_svm_conclude(&problem, done->g, done->largest, done->smallest, &all->t->solutions[own->pair]);
  gconv_svm_watch_done(all->t->settings->watch);
}

static gconv_status add_small(small_pairs *all, size_t pair) {
  const training *t = all->t;
  size_t count, first = cases_of_pair(t, pair, &count);
  small_pair *own = &all->own[all->count];
  gconv_svm_solution *solution = &t->solutions[pair];
  double *numbers = malloc(2 * count * sizeof *numbers); /* diagonal, g */
  own->pair = pair;
  all->pairs[all->count] = (gconv_svm_gpu_pair){.diagonal = numbers};
  all->count++;
  free(solution->b);
  solution->b = malloc(count * sizeof *solution->b);
  if (!numbers || !solution->b)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu variables", count);
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

/* Those that fit a block of threads, many at a time; then the others, one by one. */
static gconv_status train_pairs_there(training *t, size_t pairs) {
  small_pairs all = {.t = t};
  size_t count;
  all.pairs = calloc(pairs, sizeof *all.pairs);
  all.own = calloc(pairs, sizeof *all.own);
  gconv_status status = all.pairs && all.own ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu pairs", pairs);
  for (size_t k = 0; k < pairs && status == GCONV_OK; k++) {
    cases_of_pair(t, k, &count);
    if (gconv_svm_gpu_takes(t->place.gpu, count))
      status = add_small(&all, k);
  }
  if (status == GCONV_OK)
    status = gconv_svm_gpu_solve_pairs(t->place.gpu, all.pairs, all.count, t->settings->given.tolerance, end_pair, &all);
  for (size_t k = 0; k < all.count; k++) {
    free((double *)all.pairs[k].diagonal);
    free_variables(&all.own[k].variables);
  }
  free(all.pairs);
  free(all.own);
  for (size_t k = 0; k < pairs && status == GCONV_OK; k++) {
    cases_of_pair(t, k, &count);
    if (!gconv_svm_gpu_takes(t->place.gpu, count))
      status = train_pair(t, k);
  }
  return status;
}
#else
static gconv_status train_pairs_there(training *t, size_t pairs) {
  (void)t, (void)pairs;
  return GCONV_UNSUPPORTED;
}
#endif

static gconv_status train_pairs(training *t, size_t pairs, gconv_threads *threads) {
  t->firsts = malloc(2 * pairs * sizeof *t->firsts);
  if (!t->firsts)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %zu pairs", pairs);
  t->seconds = t->firsts + pairs;
  for (size_t i = 0, k = 0; i < t->class_count; i++)
    for (size_t j = i + 1; j < t->class_count; j++, k++) {
      t->firsts[k] = i;
      t->seconds[k] = j;
    }
  gconv_status status = t->place.gpu ? train_pairs_there(t, pairs) : train_pairs_here(t, pairs, threads);
  free(t->firsts);
  return status;
}

/* ---- All machines ---- */

static gconv_status train_on(training *t, size_t machines, gconv_device *device) {
  t->place = (gconv_svm_place){.threads = gconv_device_threads(device), .cache_bytes = t->settings->given.cache_bytes};
  return t->class_count > 0 ? train_pairs(t, machines, t->place.threads) : train_regression(t);
}

#ifdef GCONV_WITH_CUDA
static gconv_status train_there(training *t, size_t machines, gconv_device *device) {
  gconv_svm_gpu *gpu = NULL;
  gconv_status status =
      gconv_svm_gpu_create(device, &t->formula, t->cases->rows, t->cases->count, t->cases->columns, &gpu);
  t->place = (gconv_svm_place){
      .threads = gconv_device_threads(device), .gpu = gpu, .cache_bytes = t->settings->own_cache ? t->settings->given.cache_bytes : 0};
  if (status == GCONV_OK)
    status = t->class_count > 0 ? train_pairs(t, machines, t->place.threads) : train_regression(t);
  gconv_svm_gpu_free(gpu);
  return status;
}

/* On the device, or on the CPU where it cannot do it. */
static gconv_status train_machines(training *t, size_t machines, gconv_device *device) {
  if (!gconv_svm_is_there(device, &t->formula))
    return train_on(t, machines, device);
  gconv_status status = train_there(t, machines, device);
  if (status != GCONV_NO_MEMORY)
    return status;
  gconv_warn_once("trained on the CPU", "training goes on the CPU: %s", gconv_last_error());
  return train_on(t, machines, device);
}
#else
static gconv_status train_machines(training *t, size_t machines, gconv_device *device) {
  return train_on(t, machines, device);
}
#endif

/* ---- The model ---- */

/* Gathers the cases that any machine needs, and their coefficients. The coefficient of a vector of class i in the pair with
 * class j stands in row j - 1 for i < j, else in row j. */
static gconv_status assemble(const training *t, gconv_svm *model) {
  size_t machines = gconv_svm_machines(model), rows = gconv_svm_coefficient_rows(model), n = t->count,
         classes = t->class_count;
  double *all = calloc(n * rows + 1, sizeof *all);
  model->rho = malloc(machines * sizeof *model->rho);
  gconv_status status = all && model->rho ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a model");
  for (size_t i = 0, k = 0; i < classes && status == GCONV_OK; i++)
    for (size_t j = i + 1; j < classes; j++, k++) {
      size_t first = t->begins[i + 1] - t->begins[i], second = t->begins[j + 1] - t->begins[j];
      memcpy(all + (j - 1) * n + t->begins[i], t->solutions[k].b, first * sizeof *all);
      memcpy(all + i * n + t->begins[j], t->solutions[k].b + first, second * sizeof *all);
    }
  if (classes == 0 && status == GCONV_OK)
    memcpy(all, t->solutions[0].b, n * sizeof *all);
  size_t vectors = 0, class = 0;
  size_t *kept = status == GCONV_OK ? malloc((n + 1) * sizeof *kept) : NULL;
  model->vectors.columns = t->cases->columns;
  for (size_t k = 0; k < n && kept; k++) {
    bool is_one = false;
    for (size_t r = 0; r < rows; r++)
      is_one = is_one || all[r * n + k] != 0;
    while (classes > 0 && k >= t->begins[class + 1])
      class ++;
    if (is_one && classes > 0)
      model->class_vectors[class]++;
    if (is_one)
      kept[vectors++] = k;
  }
  model->coefficients = kept ? malloc((vectors * rows + 1) * sizeof *model->coefficients) : NULL;
  if (status == GCONV_OK && (!kept || !model->coefficients))
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for %zu support vectors", vectors);
  for (size_t i = 0; i < vectors && status == GCONV_OK; i++) {
    for (size_t r = 0; r < rows; r++)
      model->coefficients[r * vectors + i] = all[r * n + kept[i]];
    status = gconv_svm_cases_copy_row(&model->vectors, &t->cases->rows[t->sorted[kept[i]]]);
  }
  for (size_t k = 0; k < machines && status == GCONV_OK; k++) {
    model->rho[k] = t->solutions[k].rho;
    model->info.objective += t->solutions[k].objective;
    model->info.bounded_count += t->solutions[k].bounded;
  }
  free(all);
  free(kept);
  if (status == GCONV_OK)
    gconv_svm_model_finish(model);
  return status;
}

/* Sorts members by class, in their order within each. */
static gconv_status sort_members(const gconv_svm_cases *cases, const size_t *members, size_t count, const char *const *names,
                                 size_t class_count, size_t *sorted, size_t *begins) {
  size_t at = 0, filled = 0;
  for (size_t c = 0; c < class_count; c++) {
    begins[c] = at;
    for (size_t k = 0; k < count; k++)
      if ((size_t)cases->targets[members[k]] == c)
        sorted[at++] = members[k];
    filled += at > begins[c];
    if (at == begins[c])
      return gconv_fail(GCONV_BAD_ARGUMENT, "the class %s has no case here: leave it out, or add cases", names[c]);
  }
  begins[class_count] = at;
  if (class_count == 0)
    memcpy(sorted, members, count * sizeof *sorted);
  else if (filled < 2)
    return gconv_fail(GCONV_BAD_ARGUMENT, "all cases are of one class: a support vector machine parts two or more");
  return GCONV_OK;
}

gconv_status gconv_svm_train_plain(const gconv_svm_settings *settings, const gconv_svm_cases *cases, const size_t *members,
                                   size_t count, const char *const *names, size_t class_count, gconv_device *device,
                                   gconv_svm *model) {
  training t = {.settings = settings, .cases = cases, .count = count, .class_count = class_count};
  const gconv_svm_options *o = &settings->given;
  model->info.type = o->type;
  model->info.kernel = o->kernel;
  model->info.scaling = o->scaling;
  model->info.degree = o->degree;
  model->info.gamma = o->gamma;
  model->info.coef0 = o->coef0;
  if (class_count > 0)
    GCONV_TRY(gconv_svm_name_classes(model, names, class_count));
  size_t machines = gconv_svm_machines(model), *sorted = malloc((count + 1) * sizeof *sorted);
  size_t *begins = calloc(class_count + 1, sizeof *begins);
  double *costs = calloc(class_count + 1, sizeof *costs), largest = 0;
  model->class_vectors = calloc(class_count + 1, sizeof *model->class_vectors);
  t.solutions = calloc(machines + 1, sizeof *t.solutions);
  gconv_status status = sorted && begins && costs && model->class_vectors && t.solutions
                            ? sort_members(cases, members, count, names, class_count, sorted, begins)
                            : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", count);
  for (size_t k = 0; k < count; k++)
    largest = fmax(largest, cases->rows[members[k]].norm);
  for (size_t c = 0; c < class_count && status == GCONV_OK; c++)
    costs[c] = gconv_svm_cost_of(settings, names[c]);
  t.formula = gconv_svm_formula_of(o->kernel, o->degree, o->gamma, o->coef0, largest);
  t.sorted = sorted;
  t.begins = begins;
  t.costs = costs;
  if (status == GCONV_OK)
    status = train_machines(&t, machines, device);
  if (status == GCONV_OK)
    status = assemble(&t, model);
  for (size_t k = 0; k < machines && t.solutions; k++)
    free(t.solutions[k].b);
  free(t.solutions);
  free(sorted);
  free(begins);
  free(costs);
  return status;
}

gconv_status gconv_svm_train_cases(const gconv_svm_settings *settings, const gconv_svm_cases *cases, const size_t *members,
                                   size_t count, const char *const *names, size_t class_count, gconv_device *device,
                                   gconv_svm **model) {
  gconv_svm *made = NULL;
  gconv_svm_cases scaled = {0};
  gconv_status status = gconv_svm_model_create(&made);
  const gconv_svm_cases *used = cases;
  if (status == GCONV_OK)
    status = gconv_svm_range_find(cases, members, count, settings->given.scaling, &made->range);
  if (status == GCONV_OK && made->range.least) {
    status = gconv_svm_range_cases(&made->range, cases, &scaled);
    used = &scaled;
  }
  if (status == GCONV_OK)
    status = gconv_svm_train_plain(settings, used, members, count, names, class_count, device, made);
  if (status == GCONV_OK && settings->given.probabilities)
    status = gconv_svm_fit_probabilities(settings, used, members, count, names, class_count, device, made);
  gconv_svm_cases_free(&scaled);
  if (status == GCONV_OK)
    *model = made;
  else
    gconv_svm_free(made);
  return status;
}
