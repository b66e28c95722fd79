/* SPDX-License-Identifier: MIT */
/* Trains support vector machines on data sets, and measures their quality by cross-validation. */
#include "bank/column_notes.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "device/device.h"
#include "svm/svm.h"

#include <math.h>
#include <string.h>

/* ---- Data ---- */

static size_t columns_of(const gconv_dataset_info *info) {
  return (size_t)info->channels * (size_t)info->height * (size_t)info->width;
}

static gconv_status check_data(const gconv_dataset *data, const gconv_svm_settings *settings) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  if (info->cases == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there are no cases");
  if (info->cases > INT32_MAX)
    return gconv_fail(GCONV_TOO_LARGE, "%zu cases: at most %d can be learned", info->cases, INT32_MAX);
  if (settings->given.type == GCONV_SVM_C_SVC && info->class_count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "the cases have no classes: regression takes targets that are numbers, and classification takes whole "
                      "numbers for classes");
  if (settings->given.type == GCONV_SVM_C_SVC && info->class_count == 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "all cases are of one class, %s: a support vector machine separates two or more",
                      info->classes[0]);
  if (settings->given.type == GCONV_SVM_EPSILON_SVR && (info->class_count > 0 || info->outputs != 1))
    return gconv_fail(GCONV_BAD_ARGUMENT, "regression takes one target a case, which is a number: these have %zu %s",
                      info->outputs, info->class_count > 0 ? "classes" : "targets");
  if (settings->given.case_weight_count > 0 && settings->given.case_weight_count != info->cases)
    return gconv_fail(GCONV_BAD_ARGUMENT, "there are %zu weights of cases, and %zu cases", settings->given.case_weight_count,
                      info->cases);
  if (settings->given.kernel == GCONV_SVM_PRECOMPUTED && columns_of(info) != info->cases)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "a precomputed kernel has a column for each case: there are %zu columns and %zu cases",
                      columns_of(info), info->cases);
  for (size_t i = 0; i < settings->given.weight_count; i++) {
    bool known = settings->given.type != GCONV_SVM_C_SVC;
    for (size_t c = 0; c < info->class_count; c++)
      known = known || strcmp(info->classes[c], settings->given.weights[i].class_name) == 0;
    if (!known)
      return gconv_fail(GCONV_BAD_ARGUMENT, "there is no class %s to weigh", settings->given.weights[i].class_name);
  }
  return GCONV_OK;
}

/* The least and the largest standard deviation of a column. */
typedef struct scales {
  double least, most;
  size_t least_column, most_column;
} scales;

/* Finds the least and the largest standard deviation. Columns that are 0 in more than half of the cases, such as words of
 * texts, are left out: their deviation only says how rare they are. */
static gconv_status find_scales(const gconv_svm_cases *cases, scales *found) {
  double *sums;
  GCONV_NEW(sums, 3 * cases->columns + 1, "no memory for the deviations of %zu columns", cases->columns);
  *found = (scales){.least = (double)INFINITY};
  for (size_t i = 0; i < cases->count; i++)
    for (size_t k = 0; k < cases->rows[i].count; k++) {
      const double value = (double)cases->rows[i].values[k];
      double *of_column = sums + 3 * cases->rows[i].columns[k];
      if (isnan(value))
        continue;
      of_column[0]++;
      of_column[1] += value;
      of_column[2] += value * value;
    }
  for (size_t c = 0; c < cases->columns; c++) {
    const double n = (double)cases->count, mean = sums[3 * c + 1] / n, variance = sums[3 * c + 2] / n - mean * mean;
    const double deviation = variance > 0 ? sqrt(variance) : 0;
    if (2 * sums[3 * c] < n || deviation <= 1e-6 * fabs(mean)) /* rare, or constant up to rounding */
      continue;
    if (deviation < found->least)
      found->least = deviation, found->least_column = c;
    if (deviation > found->most)
      found->most = deviation, found->most_column = c;
  }
  free(sums);
  return GCONV_OK;
}

/* Warns of columns of unequal scale: the column with the largest numbers would decide alone, and the solver would take very
 * many steps. */
static gconv_status warn_of_scales(const gconv_svm_settings *settings, const gconv_svm_cases *cases,
                                   const gconv_dataset_info *info) {
  enum { UNEQUAL = 100 };
  char *const *names = info->notes.names;
  scales found = {0};
  if (settings->given.scaling != GCONV_SVM_UNSCALED || info->features)
    return GCONV_OK;
  GCONV_TRY(find_scales(cases, &found));
  if (found.most >= UNEQUAL * found.least)
    gconv_warn(
        "columns are of unequal scale: the standard deviation of column %zu%s%.60s%s is %.3g, that of column %zu%s%.60s%s "
        "%.3g. The former column would decide alone, and training would take long: --scale standard (scaling) helps",
        found.most_column + 1, names ? " (" : "", names ? names[found.most_column] : "", names ? ")" : "", found.most,
        found.least_column + 1, names ? " (" : "", names ? names[found.least_column] : "", names ? ")" : "", found.least);
  return GCONV_OK;
}

/* Warns if C or the tube of a regression do not fit the targets. Both are in the unit of the targets, as in LIBSVM. */
static void warn_of_unit(const gconv_svm_settings *settings, const gconv_svm_cases *cases) {
  const gconv_svm_options *o = &settings->given;
  double sum = 0, squares = 0;
  if (o->type != GCONV_SVM_EPSILON_SVR)
    return;
  for (size_t i = 0; i < cases->count; i++)
    sum += (double)cases->targets[i];
  const double n = (double)cases->count, mean = sum / n;
  for (size_t i = 0; i < cases->count; i++)
    squares += ((double)cases->targets[i] - mean) * ((double)cases->targets[i] - mean);
  const double deviation = sqrt(squares / n);
  if (deviation > 1e-6 * fabs(mean) && (deviation > 100 * o->cost || deviation < 2 * o->tube))
    gconv_warn(
        "the standard deviation of the targets is %.4g. C (%.4g) and the tube (%.4g) are in the unit of the targets, as in "
        "LIBSVM: -c %.5g -p %.5g have the effect of -c 1 -p 0.1 on targets with a standard deviation of 1",
        deviation, o->cost, o->tube, deviation, deviation / 10);
}

/* Makes the settings and cases of a data set, and the list of all cases. */
static gconv_status take_data(const gconv_svm_options *options, const gconv_dataset *data, gconv_svm_settings *settings,
                              gconv_svm_cases *cases, size_t **members) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  GCONV_TRY(gconv_svm_settle(options, columns_of(info), settings));
  GCONV_TRY(check_data(data, settings));
  GCONV_TRY(gconv_control_step("training", 0));
  GCONV_TRY(gconv_svm_cases_read(data, cases));
  if (settings->given.kernel == GCONV_SVM_PRECOMPUTED && (cases->gaps || info->notes.origins))
    return gconv_fail(GCONV_BAD_ARGUMENT, "values of a precomputed kernel %s",
                      cases->gaps
                          ? "are missing"
                          : "are too alike in a column: float32, which rows of kernel values have, cannot tell them apart");
  if (settings->given.kernel != GCONV_SVM_PRECOMPUTED)
    GCONV_TRY(warn_of_scales(settings, cases, info));
  warn_of_unit(settings, cases);
  *members = malloc((cases->count + 1) * sizeof **members);
  GCONV_NEED_MEMORY(*members, "no memory for %zu cases", cases->count);
  for (size_t i = 0; i < cases->count; i++)
    (*members)[i] = i;
  return GCONV_OK;
}

static size_t classes_of(const gconv_svm_settings *settings, const gconv_dataset_info *info) {
  return settings->given.type == GCONV_SVM_C_SVC ? info->class_count : 0;
}

/* Prepares reports of progress. `folds` models are trained. */
static void begin_watch(gconv_svm_settings *settings, size_t class_count, size_t folds, gconv_svm_watch *watch) {
  const size_t machines = class_count > 0 ? class_count * (class_count - 1) / 2 : 1;
  const size_t each = settings->given.probabilities ? 6 : 1; /* probabilities take 5 more trainings, with cases held out */
  watch->progress = settings->given.progress;
  watch->user = settings->given.user;
  watch->control = settings->control;
  watch->now = (gconv_svm_progress){machines * each * folds, 0, (double)NAN};
  settings->watch = watch;
}

/* ---- All cases ---- */

/* Trains a model on cases[members[0 .. count)], scaled and with probabilities as the options say. */
static gconv_status train_cases(const gconv_svm_settings *settings, const gconv_svm_cases *cases, const size_t *members,
                                size_t count, const char *const *names, size_t class_count, gconv_device *device,
                                gconv_svm **model) {
  gconv_svm *made = NULL;
  gconv_svm_cases scaled = {0};
  gconv_status status = gconv_svm_model_create(&made);
  const gconv_svm_cases *used = cases;
  GCONV_THEN(status, gconv_svm_range_find(cases, members, count, settings->given.scaling, &made->range));
  if (status == GCONV_OK && gconv_svm_range_changes(&made->range)) {
    status = gconv_svm_range_cases(&made->range, cases, &scaled);
    used = &scaled;
  }
  GCONV_THEN(status, gconv_svm_train_plain(settings, used, members, count, names, class_count, device, made));
  if (status == GCONV_OK && settings->given.probabilities)
    status = gconv_svm_fit_probabilities(settings, used, members, count, names, class_count, device, made);
  gconv_svm_cases_free(&scaled);
  if (status == GCONV_OK)
    *model = made;
  else
    gconv_svm_free(made);
  return status;
}

/* Stores notes about the data set: the name of the column of targets, notes about columns and, for pixels, features and
 * colours. */
static gconv_status note_data(const gconv_dataset_info *info, gconv_svm *model) {
  const size_t bytes = 3 * info->class_count;
  model->label = info->label && *info->label ? strdup(info->label) : NULL;
  model->features = info->features ? strdup(info->features) : NULL;
  model->palette = info->features && info->palette ? malloc(bytes) : NULL;
  if (!model->label != !(info->label && *info->label) || !model->features != !info->features ||
      (info->features && !model->palette != !info->palette))
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a model");
  if (model->palette)
    memcpy(model->palette, info->palette, bytes);
  GCONV_TRY(gconv_column_notes_copy(&info->notes, &model->notes));
  gconv_svm_model_finish(model);
  return GCONV_OK;
}

gconv_status gconv_svm_train(const gconv_svm_options *options, const gconv_dataset *data, gconv_device *device,
                             gconv_svm **model) {
  GCONV_NEED(data, device, model);
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  gconv_svm_settings settings;
  GCONV_ENDED_BY(gconv_svm_cases_free) gconv_svm_cases cases = {0};
  gconv_svm_watch watch = {.lock = PTHREAD_MUTEX_INITIALIZER};
  GCONV_FREED size_t *members = NULL;
  *model = NULL;
  gconv_status status = take_data(options, data, &settings, &cases, &members);
  if (status == GCONV_OK)
    begin_watch(&settings, classes_of(&settings, info), 1, &watch);
  GCONV_THEN(status, train_cases(&settings, &cases, members, cases.count, info->classes, classes_of(&settings, info), device,
                                 model));
  GCONV_THEN(status, note_data(info, *model));
  if (status != GCONV_OK) {
    gconv_svm_free(*model);
    *model = NULL;
  }
  return status;
}

/* ---- Cross-validation ---- */

/* Sums over the predictions of regression. */
typedef struct sums {
  double errors, predicted, predicted_squares, wanted, wanted_squares, products;
} sums;

static void add_prediction(sums *s, double predicted, double wanted) {
  s->errors += (predicted - wanted) * (predicted - wanted);
  s->predicted += predicted;
  s->predicted_squares += predicted * predicted;
  s->wanted += wanted;
  s->wanted_squares += wanted * wanted;
  s->products += predicted * wanted;
}

typedef struct validating {
  const gconv_svm_settings *settings;
  const gconv_svm_cases *cases;
  const gconv_dataset_info *info;
  size_t class_count;
  gconv_device *device;
  size_t *fold, *inside, *outside;
  sums sums;
  gconv_svm_validation *result;
} validating;

/* Predicts the `count` cases outside the fold's training, and adds their errors to the sums. */
static gconv_status judge(validating *v, const gconv_svm *model, size_t count) {
  size_t machines = gconv_svm_machines(model), columns = v->cases->columns;
  GCONV_ENDED_BY(gconv_svm_cases_free) gconv_svm_cases part = {.columns = columns};
  GCONV_ENDED_BY(gconv_svm_cases_free) gconv_svm_cases scaled = {0};
  GCONV_FREED double *values = malloc((count * machines + 1) * sizeof *values);
  GCONV_FREED size_t *votes = calloc(v->class_count + 1, sizeof *votes);
  part.targets = malloc((count + 1) * sizeof *part.targets);
  GCONV_NEED_MEMORY(values && votes && part.targets, "no memory for %zu predictions", count);
  for (size_t k = 0; k < count; k++) {
    part.targets[k] = v->cases->targets[v->outside[k]];
    GCONV_TRY(gconv_svm_cases_copy_row(&part, &v->cases->rows[v->outside[k]]));
  }
  gconv_svm_cases_finish(&part);
  const bool changes = gconv_svm_range_changes(&model->range);
  if (changes)
    GCONV_TRY(gconv_svm_range_cases(&model->range, &part, &scaled));
  GCONV_TRY(gconv_svm_values(model, v->device, changes ? scaled.rows : part.rows, count, values));
  for (size_t k = 0; k < count; k++) {
    v->result->cases++;
    if (v->class_count == 0)
      add_prediction(&v->sums, values[k], (double)part.targets[k]);
    else
      v->result->right += gconv_svm_vote(values + k * machines, v->class_count, votes) == (size_t)part.targets[k];
  }
  return GCONV_OK;
}

static gconv_status do_fold(validating *v, size_t fold) {
  size_t inside = 0, outside = 0;
  gconv_svm *model = NULL;
  for (size_t i = 0; i < v->cases->count; i++)
    if (v->fold[i] == fold)
      v->outside[outside++] = i;
    else
      v->inside[inside++] = i;
  GCONV_TRY(train_cases(v->settings, v->cases, v->inside, inside, v->info->classes, v->class_count, v->device, &model));
  v->result->on_gpu = v->result->on_gpu && gconv_svm_get_info(model)->on_gpu;
  gconv_status status = judge(v, model, outside);
  gconv_svm_free(model);
  return status;
}

static gconv_status validate(validating *v, const size_t *members, size_t folds) {
  size_t count = v->cases->count;
  if (folds > count)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%zu folds of %zu cases: each fold needs a case", folds, count);
  for (size_t c = 0; c < v->class_count; c++) {
    size_t in_class = 0;
    for (size_t i = 0; i < count; i++)
      in_class += (size_t)v->cases->targets[i] == c;
    if (in_class < 2)
      return gconv_fail(GCONV_BAD_ARGUMENT,
                        "the class %s has %zu case%s: cross-validation needs two, one to learn and one to test",
                        v->info->classes[c], in_class, in_class == 1 ? "" : "s");
  }
  GCONV_NEW(v->fold, 3 * count, "no memory for folds of %zu cases", count);
  v->inside = v->fold + count;
  v->outside = v->inside + count;
  GCONV_TRY(gconv_svm_deal(v->cases, members, count, v->class_count, folds, v->settings->given.seed, 0, v->fold));
  gconv_svm_validation *r = v->result;
  r->on_gpu = true;
  for (size_t fold = 0; fold < folds; fold++)
    GCONV_TRY(do_fold(v, fold));
  double n = (double)count;
  const sums *s = &v->sums;
  r->accuracy = v->class_count > 0 ? (double)r->right / n : (double)NAN;
  r->mse = v->class_count > 0 ? (double)NAN : s->errors / n;
  double covariance = n * s->products - s->predicted * s->wanted;
  double variances =
      (n * s->predicted_squares - s->predicted * s->predicted) * (n * s->wanted_squares - s->wanted * s->wanted);
  r->correlation = v->class_count > 0 ? (double)NAN : covariance * covariance / variances;
  return GCONV_OK;
}

gconv_status gconv_svm_validate(const gconv_svm_options *options, const gconv_dataset *data, size_t folds,
                                gconv_device *device, gconv_svm_validation *result) {
  GCONV_NEED(data, device, result);
  if (folds < 2)
    return gconv_fail(GCONV_BAD_ARGUMENT, "folds is %zu: cross-validation takes at least 2", folds);
  gconv_svm_settings settings;
  GCONV_ENDED_BY(gconv_svm_cases_free) gconv_svm_cases cases = {0};
  gconv_svm_watch watch = {.lock = PTHREAD_MUTEX_INITIALIZER};
  GCONV_FREED size_t *members = NULL;
  validating v = {.settings = &settings, .cases = &cases, .info = gconv_dataset_get_info(data), .result = result};
  *result = (gconv_svm_validation){0};
  gconv_status status = take_data(options, data, &settings, &cases, &members);
  settings.given.probabilities = false;
  v.class_count = status == GCONV_OK ? classes_of(&settings, v.info) : 0;
  if (status == GCONV_OK)
    begin_watch(&settings, v.class_count, folds, &watch);
  v.device = device;
  GCONV_THEN(status, validate(&v, members, folds));
  free(v.fold);
  return status;
}
