/* SPDX-License-Identifier: MIT */
/* Probabilities: a sigmoid of a value. It is fitted to the values of cases that were held out in training. */
#include "base/memory.h"
#include "svm/svm.h"

#include <math.h>

enum { FOLDS = 5 };

/* ---- The sigmoid ---- */

/* Values, and the target probability of each. */
typedef struct targets {
  const double *values, *wanted;
  size_t count;
} targets;

/* Returns the negative log likelihood of 1 / (1 + exp(a * value + b)). */
static double cost_of(const targets *t, double a, double b) {
  double cost = 0;
  for (size_t i = 0; i < t->count; i++) {
    double x = t->values[i] * a + b;
    cost += x >= 0 ? t->wanted[i] * x + log(1 + exp(-x)) : (t->wanted[i] - 1) * x + log(1 + exp(x));
  }
  return cost;
}

/* Fits a and b by Newton's method with backtracking, with the constants of Lin, Lin and Weng, "A note on Platt's
 * probabilistic outputs for support vector machines", 2007. prior_first, prior_second: the cases of each class. */
static void fit_sigmoid(const targets *t, double prior_first, double prior_second, double *a, double *b) {
  const double least_step = 1e-10, ridge = 1e-12, enough = 1e-5, decrease = 1e-4;
  *a = 0;
  *b = log((prior_second + 1) / (prior_first + 1));
  double cost = cost_of(t, *a, *b);
  for (int round = 0; round < 100; round++) {
    double h11 = ridge, h22 = ridge, h21 = 0, g1 = 0, g2 = 0;
    for (size_t i = 0; i < t->count; i++) {
      double x = t->values[i] * *a + *b;
      double p = x >= 0 ? exp(-x) / (1 + exp(-x)) : 1 / (1 + exp(x)), q = 1 - p, curvature = p * q;
      h11 += t->values[i] * t->values[i] * curvature;
      h22 += curvature;
      h21 += t->values[i] * curvature;
      g1 += t->values[i] * (t->wanted[i] - p);
      g2 += t->wanted[i] - p;
    }
    if (fabs(g1) < enough && fabs(g2) < enough)
      return;
    double determinant = h11 * h22 - h21 * h21;
    double da = -(h22 * g1 - h21 * g2) / determinant, db = -(-h21 * g1 + h11 * g2) / determinant;
    double slope = g1 * da + g2 * db, step = 1;
    for (; step >= least_step; step /= 2) {
      double next = cost_of(t, *a + step * da, *b + step * db);
      if (next < cost + decrease * step * slope) {
        *a += step * da;
        *b += step * db;
        cost = next;
        break;
      }
    }
    if (step < least_step)
      return;
  }
}

/* ---- Values of cases that a model was not trained on ---- */

typedef struct fitting {
  const gconv_svm_settings *settings;
  const gconv_svm_cases *cases;
  const size_t *members;
  size_t count, class_count;
  const char *const *names;
  gconv_device *device;
  size_t wide; /* how many values a case has. Value j is that of the pair of its class and class j; 1 in regression */
  size_t *fold, *inside;
  double *values; /* count x wide */
} fitting;

/* Keeps those values of a case that belong to pairs with its class. */
static void keep_own(const fitting *f, size_t k, const double *all) {
  size_t classes = f->class_count, class = classes > 0 ? (size_t)f->cases->targets[f->members[k]] : 0;
  double *own = f->values + k * f->wide;
  if (classes == 0)
    own[0] = all[0];
  for (size_t i = 0, pair = 0; i < classes; i++)
    for (size_t j = i + 1; j < classes; j++, pair++) {
      if (i == class)
        own[j] = all[pair];
      if (j == class)
        own[i] = all[pair];
    }
}

/* Computes the values of the cases of a fold by a model that was trained without them. */
static gconv_status value_fold(const fitting *f, const gconv_svm *model, size_t fold) {
  enum { PART = 256 };
  gconv_svm_row rows[PART];
  size_t numbers[PART], count = 0, machines = gconv_svm_machines(model);
  GCONV_FREED double *all = malloc(PART * machines * sizeof *all);
  GCONV_NEED_MEMORY(all, "no memory for the values of %zu pairs", machines);
  for (size_t k = 0; k < f->count; k++) {
    if (f->fold[k] == fold) {
      rows[count] = f->cases->rows[f->members[k]];
      numbers[count++] = k;
    }
    if (count == PART || (k + 1 == f->count && count > 0)) {
      GCONV_TRY(gconv_svm_values(model, f->device, rows, count, all));
      for (size_t i = 0; i < count; i++)
        keep_own(f, numbers[i], all + i * machines);
      count = 0;
    }
  }
  return GCONV_OK;
}

static gconv_status find_values(fitting *f) {
  for (size_t fold = 0; fold < FOLDS; fold++) {
    size_t inside = 0;
    gconv_svm *model = NULL;
    for (size_t k = 0; k < f->count; k++)
      if (f->fold[k] != fold)
        f->inside[inside++] = f->members[k];
    GCONV_TRY(gconv_svm_model_create(&model));
    gconv_status status =
        gconv_svm_train_plain(f->settings, f->cases, f->inside, inside, f->names, f->class_count, f->device, model);
    GCONV_THEN(status, value_fold(f, model, fold));
    gconv_svm_free(model);
    GCONV_TRY(status);
  }
  return GCONV_OK;
}

/* ---- Models ---- */

static void fit_pair(const fitting *f, size_t i, size_t j, double *values, double *wanted, double *a, double *b) {
  double first = 0, second = 0;
  size_t count = 0;
  for (size_t k = 0; k < f->count; k++) {
    size_t class = (size_t)f->cases->targets[f->members[k]];
    if (class != i && class != j)
      continue;
    values[count] = f->values[k * f->wide + (class == i ? j : i)];
    wanted[count++] = class == i ? 1 : 0;
    first += class == i;
    second += class == j;
  }
  for (size_t k = 0; k < count; k++)
    wanted[k] = wanted[k] > 0 ? (first + 1) / (first + 2) : 1 / (second + 2);
  const targets t = {values, wanted, count};
  fit_sigmoid(&t, first, second, a, b);
}

static gconv_status fit_pairs(const fitting *f, gconv_svm *model) {
  size_t pairs = gconv_svm_machines(model), pair = 0;
  double *memory = malloc((2 * f->count + 1) * sizeof *memory);
  model->prob_a = malloc((pairs + 1) * sizeof *model->prob_a);
  model->prob_b = malloc((pairs + 1) * sizeof *model->prob_b);
  if (!memory || !model->prob_a || !model->prob_b) {
    free(memory);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the probabilities of %zu pairs", pairs);
  }
  for (size_t i = 0; i < f->class_count; i++)
    for (size_t j = i + 1; j < f->class_count; j++, pair++)
      fit_pair(f, i, j, memory, memory + f->count, &model->prob_a[pair], &model->prob_b[pair]);
  free(memory);
  return GCONV_OK;
}

/* Sets the spread of a regression: the mean of |error|, without errors beyond 5 standard deviations of the Laplace
 * distribution with this mean. */
static gconv_status fit_spread(const fitting *f, gconv_svm *model) {
  double mean = 0, sum = 0;
  size_t kept = 0;
  GCONV_NEW(model->prob_a, 1, "no memory for the spread of errors");
  for (size_t k = 0; k < f->count; k++)
    mean += fabs((double)f->cases->targets[f->members[k]] - f->values[k]) / (double)f->count;
  for (size_t k = 0; k < f->count; k++) {
    double error = fabs((double)f->cases->targets[f->members[k]] - f->values[k]);
    if (!(error > 5 * sqrt(2 * mean * mean))) {
      sum += error;
      kept++;
    }
  }
  model->prob_a[0] = kept > 0 ? sum / (double)kept : 0;
  return GCONV_OK;
}

gconv_status gconv_svm_fit_probabilities(const gconv_svm_settings *settings, const gconv_svm_cases *cases,
                                         const size_t *members, size_t count, const char *const *names, size_t class_count,
                                         gconv_device *device, gconv_svm *model) {
  fitting f = {.settings = settings,
               .cases = cases,
               .members = members,
               .count = count,
               .class_count = class_count,
               .names = names,
               .device = device,
               .wide = class_count > 0 ? class_count : 1};
  if (count < 2 * (class_count > 0 ? class_count : 1))
    return gconv_fail(GCONV_BAD_ARGUMENT, "%zu cases are too few for probabilities, which need cases outside the training",
                      count);
  for (size_t c = 0; c < class_count; c++) {
    size_t in_class = 0;
    for (size_t k = 0; k < count; k++)
      in_class += (size_t)cases->targets[members[k]] == c;
    if (in_class < 2)
      return gconv_fail(GCONV_BAD_ARGUMENT, "the class %s has 1 case: probabilities need 2, one to train and one to test",
                        names[c]);
  }
  f.fold = malloc(2 * count * sizeof *f.fold);
  f.values = calloc(count * f.wide, sizeof *f.values);
  gconv_status status = f.fold && f.values ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu cases", count);
  f.inside = f.fold + count;
  GCONV_THEN(status, gconv_svm_deal(cases, members, count, class_count, FOLDS, settings->given.seed, 1, f.fold));
  GCONV_THEN(status, find_values(&f));
  GCONV_THEN(status, class_count > 0 ? fit_pairs(&f, model) : fit_spread(&f, model));
  free(f.fold);
  free(f.values);
  if (status == GCONV_OK)
    gconv_svm_model_finish(model);
  return status;
}
