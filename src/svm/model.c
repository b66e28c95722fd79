/* SPDX-License-Identifier: MIT */
/* Models of support vector machines. */
#include "bank/column_notes.h"
#include "base/arguments.h"
#include "base/memory.h"
#include "svm/svm.h"

#include <string.h>

size_t gconv_svm_machines(const gconv_svm *model) {
  return model->info.type == GCONV_SVM_C_SVC ? model->info.pair_count : 1;
}

size_t gconv_svm_coefficient_rows(const gconv_svm *model) {
  return model->info.type == GCONV_SVM_C_SVC ? model->info.class_count - 1 : 1;
}

gconv_status gconv_svm_name_classes(gconv_svm *model, const char *const *names, size_t count) {
  model->classes = calloc(count + 1, sizeof *model->classes);
  for (size_t i = 0; i < count && model->classes; i++)
    if (!(model->classes[i] = strdup(names[i])))
      return gconv_fail(GCONV_NO_MEMORY, "no memory for the names of %zu classes", count);
  GCONV_NEED_MEMORY(model->classes, "no memory for the names of %zu classes", count);
  model->info.class_count = count;
  model->info.pair_count = count * (count - 1) / 2;
  return GCONV_OK;
}

gconv_status gconv_svm_model_create(gconv_svm **model) {
  gconv_svm *m = calloc(1, sizeof *m);
  if (!m || pthread_mutex_init(&m->lock, NULL) != 0 || pthread_mutex_init(&m->gpu_lock, NULL) != 0) {
    free(m);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a model");
  }
  *model = m;
  return GCONV_OK;
}

void gconv_svm_model_finish(gconv_svm *model) {
  gconv_svm_info *info = &model->info;
  gconv_svm_cases_finish(&model->vectors);
  info->classes = (const char *const *)model->classes;
  info->features = model->features;
  info->label = model->label;
  info->palette = model->palette;
  info->notes = &model->notes;
  info->vector_count = model->vectors.count;
  info->columns = model->vectors.columns;
  info->class_vectors = info->class_count > 0 ? model->class_vectors : NULL;
  info->coefficients = model->coefficients;
  info->rho = model->rho;
  info->support = model->support;
  info->steps = model->steps;
  info->probabilities = info->type == GCONV_SVM_C_SVC && model->prob_a;
  info->spread = info->type == GCONV_SVM_EPSILON_SVR && model->prob_a ? model->prob_a[0] : 0;
}

static gconv_status prepare(gconv_svm *model) {
  const gconv_svm_info *info = &model->info;
  size_t vectors = info->vector_count, rows = gconv_svm_coefficient_rows(model);
  double largest = 0;
  for (size_t i = 0; i < vectors; i++)
    largest = model->vectors.rows[i].norm > largest ? model->vectors.rows[i].norm : largest;
  model->formula = gconv_svm_formula_of(info->kernel, info->degree, info->gamma, info->coef0, largest);
  GCONV_TRY(gconv_svm_points_make(&model->vectors, NULL, vectors, &model->points));
  GCONV_NEW(model->by_vector, vectors * rows + 1, "no memory for the coefficients of %zu support vectors", vectors);
  for (size_t i = 0; i < vectors; i++)
    for (size_t r = 0; r < rows; r++)
      model->by_vector[i * rows + r] = model->coefficients[r * vectors + i];
  return GCONV_OK;
}

gconv_status gconv_svm_model_prepare(gconv_svm *model) {
  gconv_status status = GCONV_OK;
  pthread_mutex_lock(&model->lock);
  if (!model->ready) {
    status = prepare(model);
    model->ready = status == GCONV_OK;
    if (status != GCONV_OK) {
      gconv_svm_points_free(&model->points);
      free(model->by_vector);
      model->by_vector = NULL;
    }
  }
  pthread_mutex_unlock(&model->lock);
  return status;
}

void gconv_svm_free(gconv_svm *model) {
  if (!model)
    return;
  for (size_t i = 0; model->classes && i < model->info.class_count; i++)
    free(model->classes[i]);
  free(model->classes);
  free(model->features);
  free(model->label);
  free(model->palette);
  gconv_column_notes_free(&model->notes);
  gconv_svm_range_free(&model->range);
  gconv_svm_cases_free(&model->vectors);
  gconv_svm_points_free(&model->points);
  free(model->class_vectors);
  free(model->support);
  free(model->coefficients);
  free(model->rho);
  free(model->steps);
  free(model->prob_a);
  free(model->prob_b);
  free(model->by_vector);
#ifdef GCONV_WITH_CUDA
  gconv_svm_gpu_free(model->gpu);
#endif
  pthread_mutex_destroy(&model->lock);
  pthread_mutex_destroy(&model->gpu_lock);
  free(model);
}

const gconv_svm_info *gconv_svm_get_info(const gconv_svm *model) {
  if (!model)
    gconv_fail(GCONV_BAD_ARGUMENT, "gconv_svm_get_info(): model is NULL");
  return model ? &model->info : NULL;
}
