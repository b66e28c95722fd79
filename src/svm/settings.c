/* SPDX-License-Identifier: MIT */
/* Options of support vector machines with their defaults, and reports of progress. */
#include "base/arguments.h"
#include "svm/svm.h"

#include <math.h>
#include <string.h>

static gconv_status check_number(const char *what, double value, bool above_zero) {
  if (isfinite(value) && (!above_zero || value >= 0))
    return GCONV_OK;
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s is %g: it must be a number%s", what, value, above_zero ? " above 0" : "");
}

gconv_status gconv_svm_settle(const gconv_svm_options *options, size_t columns, gconv_svm_settings *settings) {
  GCONV_NEED_KNOWN(options);
  gconv_svm_options *o = &settings->given;
  *o = options ? *options : (gconv_svm_options){0};
  GCONV_TRY(gconv_check_value("type", o->type, GCONV_SVM_C_SVC, GCONV_SVM_EPSILON_SVR));
  GCONV_TRY(gconv_check_value("kernel", o->kernel, GCONV_SVM_RBF, GCONV_SVM_PRECOMPUTED));
  GCONV_TRY(gconv_check_value("scaling", o->scaling, GCONV_SVM_UNSCALED, GCONV_SVM_SCALE_STANDARD));
  if (o->kernel == GCONV_SVM_PRECOMPUTED && o->scaling != GCONV_SVM_UNSCALED)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a precomputed kernel has no columns to scale: leave the scaling out");
  GCONV_TRY(gconv_check_value("degree", o->degree, 0, 1000));
  GCONV_TRY(check_number("gamma", o->gamma, true));
  GCONV_TRY(check_number("coef0", o->coef0, false));
  GCONV_TRY(check_number("cost", o->cost, true));
  GCONV_TRY(check_number("tube", o->tube, false));
  GCONV_TRY(check_number("tolerance", o->tolerance, true));
  if (o->case_weight_count > 0)
    GCONV_NEED_AS(o->case_weights, "case_weights");
  else
    o->case_weights = NULL;
  for (size_t i = 0; i < o->case_weight_count; i++)
    if (!(o->case_weights[i] > 0) || !isfinite(o->case_weights[i]))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the weight of case %zu is %g: it must be a number above 0", i + 1,
                        o->case_weights[i]);
  if (o->weight_count > 0)
    GCONV_NEED_AS(o->weights, "weights");
  for (size_t i = 0; i < o->weight_count; i++) {
    GCONV_NEED_AS(o->weights[i].class_name, "class_name");
    if (!(o->weights[i].weight > 0) || !isfinite(o->weights[i].weight))
      return gconv_fail(GCONV_BAD_ARGUMENT, "the weight of class %s is %g: it must be a number above 0",
                        o->weights[i].class_name, o->weights[i].weight);
  }
  settings->watch = NULL;
  settings->control = gconv_control_here();
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

void gconv_svm_watch_done(gconv_svm_watch *watch) {
  if (!watch)
    return;
  pthread_mutex_lock(&watch->lock);
  watch->now.done++;
  gconv_control_note(watch->control, "training", (double)watch->now.done / (double)watch->now.machines);
  if (watch->progress)
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
