/* SPDX-License-Identifier: MIT */
/* gconv classify of a support vector machine: predictions of the rows of a table. */
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/svm.h"

#include <string.h>

typedef struct applying {
  gconv_classifying *c;
  gconv_svm *model;
  const gconv_svm_info *info;
  gconv_dataset *data;
} applying;

static gconv_status open_data(applying *a) {
  const gconv_cases *cases = a->c->cases;
  const gconv_taken_cases taken = {.taker = "model", .channels = (int32_t)a->info->columns};
  gconv_dataset_options options = cases->data;
  if (cases->windows.samples > 0 || cases->raw)
    return gconv_refuse("--windows and --raw are for networks: a support vector machine takes the rows of a table");
  options.kind = GCONV_DATASET_TABLE;
  options.columns = a->info->columns;
  options.classes = a->info->classes;
  options.class_count = a->info->class_count;
  options.regression = a->info->class_count == 0;
  options.usual_label = a->info->label;
  options.like = a->info->notes;
  return gconv_classify_open_data(a->c, options, &taken, &a->data);
}

static gconv_status open_device(applying *a) {
  const gconv_common *s = a->c->common;
  const bool tanh = a->info->kernel == GCONV_SVM_SIGMOID, any = !s->device || strcmp(s->device, "auto") == 0;
  const int threads = gconv_settle_threads(s->threads, s->quiet);
  const double cases = (double)gconv_dataset_get_info(a->data)->cases;
  const gconv_svm_effort effort = {cases * (double)a->info->vector_count, (double)a->info->columns, 0};
  const char *name = tanh ? "cpu" : s->device;
  char why[120];
  if (!gconv_svm_choose(name, &effort, threads, &name, why, sizeof why))
    snprintf(why, sizeof why, "%s", tanh ? "tanh has other bits on a GPU" : any ? GCONV_WHY_NO_GPU : "");
  GCONV_TRY(gconv_device_open(name, threads, &a->c->device));
  gconv_device_choose(&a->c->chosen, gconv_device_get_info(a->c->device)->name, why);
  gconv_device_tell(s, &a->c->chosen);
  return GCONV_OK;
}

static gconv_status prepare(applying *a) {
  gconv_classifying *c = a->c;
  GCONV_TRY(gconv_classify_check_outputs(c));
  GCONV_TRY(gconv_svm_read(c->path, &a->model));
  a->info = gconv_svm_get_info(a->model);
  c->classes = a->info->classes;
  c->class_count = a->info->class_count;
  c->certainty = a->info->probabilities ? "probability" : NULL;
  if (c->common->report && c->class_count == 0)
    return gconv_refuse("--report: is about classes, and %s has none", c->path);
  GCONV_TRY(open_data(a));
  GCONV_TRY(open_device(a));
  return gconv_classify_open_output(c);
}

int gconv_classify_svm(gconv_classifying *c) {
  applying a = {.c = c};
  c->unit = "case";
  gconv_status status = prepare(&a);
  GCONV_THEN(status, gconv_classify_data(c, NULL, a.model, a.data));
  gconv_dataset_free(a.data);
  int result = gconv_classify_end(c, status, false);
  gconv_svm_free(a.model);
  return result;
}
