/* SPDX-License-Identifier: MIT */
/* Trains the machines of a model, and makes the model from their solutions. */
#include "base/memory.h"
#include "svm/machines.h"

#include <math.h>
#include <string.h>

/* Gathers the support vectors of all machines, and their coefficients. The coefficient of a vector of class i in the pair
 * with class j is in row j - 1 if i < j, else in row j. */
static gconv_status assemble(const gconv_svm_training *t, gconv_svm *model) {
  size_t machines = gconv_svm_machines(model), rows = gconv_svm_coefficient_rows(model), n = t->count,
         classes = t->class_count;
  double *all = calloc(n * rows + 1, sizeof *all);
  model->rho = malloc(machines * sizeof *model->rho);
  model->steps = malloc(machines * sizeof *model->steps);
  gconv_status status = all && model->rho && model->steps ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a model");
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
    bool supports = false; /* the case is a support vector */
    for (size_t r = 0; r < rows; r++)
      supports = supports || all[r * n + k] != 0;
    while (classes > 0 && k >= t->begins[class + 1])
      class ++;
    if (supports && classes > 0)
      model->class_vectors[class]++;
    if (supports)
      kept[vectors++] = k;
  }
  model->coefficients = kept ? malloc((vectors * rows + 1) * sizeof *model->coefficients) : NULL;
  model->support = kept ? malloc((vectors + 1) * sizeof *model->support) : NULL;
  if (status == GCONV_OK && (!kept || !model->coefficients || !model->support))
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for %zu support vectors", vectors);
  for (size_t i = 0; i < vectors && status == GCONV_OK; i++) {
    for (size_t r = 0; r < rows; r++)
      model->coefficients[r * vectors + i] = all[r * n + kept[i]];
    model->support[i] = t->sorted[kept[i]];
    status = t->formula.form != GCONV_SVM_FORM_GIVEN
                 ? gconv_svm_cases_copy_row(&model->vectors, &t->cases->rows[model->support[i]])
                 : gconv_svm_cases_entry(&model->vectors, (uint32_t)model->support[i], 1);
    if (t->formula.form == GCONV_SVM_FORM_GIVEN) /* K is the product of a row and this unit vector */
      GCONV_THEN(status, gconv_svm_cases_end_row(&model->vectors));
  }
  for (size_t k = 0; k < machines && status == GCONV_OK; k++) {
    model->rho[k] = t->solutions[k].rho;
    model->steps[k] = t->solutions[k].steps;
    model->info.objective += t->solutions[k].objective;
    model->info.bounded_count += t->solutions[k].bounded;
  }
  free(all);
  free(kept);
  if (status == GCONV_OK)
    gconv_svm_model_finish(model);
  return status;
}

/* Sorts members by class; within a class, they keep their order. */
static gconv_status sort_members(const gconv_svm_cases *cases, const size_t *members, size_t count, const char *const *names,
                                 size_t class_count, size_t *sorted, size_t *begins) {
  size_t at = 0;
  for (size_t c = 0; c < class_count; c++) {
    begins[c] = at;
    for (size_t k = 0; k < count; k++)
      if ((size_t)cases->targets[members[k]] == c)
        sorted[at++] = members[k];
    if (at == begins[c])
      return gconv_fail(GCONV_BAD_ARGUMENT, "the class %s has no case: leave it out, or add cases", names[c]);
  }
  begins[class_count] = at;
  if (class_count == 0)
    memcpy(sorted, members, count * sizeof *sorted);
  return GCONV_OK;
}

gconv_status gconv_svm_train_plain(const gconv_svm_settings *settings, const gconv_svm_cases *cases, const size_t *members,
                                   size_t count, const char *const *names, size_t class_count, gconv_device *device,
                                   gconv_svm *model) {
  gconv_svm_training t = {.settings = settings, .cases = cases, .count = count, .class_count = class_count};
  const gconv_svm_options *o = &settings->given;
  model->info.type = o->type;
  model->info.kernel = o->kernel == GCONV_SVM_PRECOMPUTED ? GCONV_SVM_LINEAR : o->kernel;
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
  GCONV_THEN(status, gconv_svm_train_machines(&t, machines, device));
  GCONV_THEN(status, assemble(&t, model));
  model->info.on_gpu = t.on_gpu;
  for (size_t k = 0; k < machines && t.solutions; k++)
    free(t.solutions[k].b);
  free(t.solutions);
  free(sorted);
  free(begins);
  free(costs);
  return status;
}
