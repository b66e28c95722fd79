/* SPDX-License-Identifier: MIT */
/* gconv classify of a support vector machine: predictions of the rows of a table. */
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/rows.h"
#include "cli/svm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Predictions ------------------------------------------------------------------------------------------------------ */

typedef struct applying {
  gconv_classifying *c;
  gconv_svm *model;
  const gconv_svm_info *info;
  gconv_dataset *data;
} applying;

/* Some rows at a time. */
typedef struct batch {
  size_t room, *cases;
  float *inputs, *targets;
  int32_t *classes;
  double *values, *probabilities;
} batch;

static bool is_regression(const applying *a) {
  return a->info->type == GCONV_SVM_EPSILON_SVR;
}

static gconv_status put_header(applying *a) {
  if (is_regression(a))
    return gconv_sink_print(a->c->sink, "case,output1\n");
  return gconv_sink_print(a->c->sink, "case,class%s%s\n", a->info->probabilities ? ",probability" : "",
                          a->c->evaluate ? ",label" : "");
}

/* The number of the row of a case, from 1 on. */
static size_t row_of(const applying *a, size_t index) {
  const size_t *rows = gconv_dataset_get_info(a->data)->rows;
  return (rows ? rows[index] : index) + 1;
}

static gconv_status put_case(applying *a, const batch *b, size_t i) {
  GCONV_TRY(gconv_sink_print(a->c->sink, "%zu,", row_of(a, b->cases[i])));
  if (is_regression(a))
    return gconv_sink_print(a->c->sink, "%.9g\n", b->values[i]);
  size_t class = (size_t)b->classes[i];
  GCONV_TRY(gconv_rows_field(a->c->sink, a->c->terminal, a->info->classes[class]));
  if (b->probabilities)
    GCONV_TRY(gconv_sink_print(a->c->sink, ",%.6g", b->probabilities[i * a->info->class_count + class]));
  GCONV_TRY(gconv_classify_put_label(a->c, (size_t)b->targets[i]));
  return gconv_sink_print(a->c->sink, "\n");
}

static gconv_status judge(applying *a, const batch *b, size_t i) {
  char name[24];
  if (!a->c->evaluate)
    return GCONV_OK;
  if (is_regression(a)) {
    gconv_classify_note_number(a->c, b->values[i], (double)b->targets[i]);
    return GCONV_OK;
  }
  const size_t class = (size_t)b->targets[i], taken_for = (size_t)b->classes[i];
  gconv_confusion_add(&a->c->confusion, class, taken_for);
  if (class == taken_for)
    return GCONV_OK;
  snprintf(name, sizeof name, "%zu", row_of(a, b->cases[i]));
  return gconv_classify_note_case(a->c, name, class, taken_for,
                                  b->probabilities ? b->probabilities[i * a->info->class_count + taken_for] : (double)NAN);
}

static gconv_status apply(applying *a, batch *b) {
  size_t all = gconv_dataset_get_info(a->data)->cases;
  for (size_t first = 0; first < all; first += b->room) {
    size_t count = all - first < b->room ? all - first : b->room;
    for (size_t i = 0; i < count; i++)
      b->cases[i] = first + i;
    GCONV_TRY(gconv_dataset_read(a->data, 0, b->cases, count, b->inputs, a->c->evaluate ? b->targets : NULL));
    GCONV_TRY(gconv_svm_predict(a->model, a->c->device, b->inputs, count, b->classes, b->values, b->probabilities));
    for (size_t i = 0; i < count; i++) {
      GCONV_TRY(judge(a, b, i));
      if (a->c->sink)
        GCONV_TRY(put_case(a, b, i));
    }
  }
  return GCONV_OK;
}

static gconv_status apply_all(applying *a) {
  enum { FLOATS = 1 << 22 };
  size_t columns = a->info->columns, classes = a->info->class_count;
  batch b = {.room = FLOATS / (columns + classes + 1) + 1};
  b.cases = malloc(b.room * sizeof *b.cases);
  b.inputs = malloc(b.room * columns * sizeof *b.inputs);
  b.targets = malloc(b.room * sizeof *b.targets);
  b.classes = is_regression(a) ? NULL : malloc(b.room * sizeof *b.classes);
  b.values = is_regression(a) ? malloc(b.room * sizeof *b.values) : NULL;
  b.probabilities = a->info->probabilities ? malloc(b.room * classes * sizeof *b.probabilities) : NULL;
  bool enough = b.cases && b.inputs && b.targets && (is_regression(a) ? b.values != NULL : b.classes != NULL) &&
                (b.probabilities || !a->info->probabilities);
  gconv_status status = GCONV_OK;
  if (!enough)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for %zu rows of %zu columns", b.room, columns);
  if (status == GCONV_OK && a->c->sink)
    status = put_header(a);
  GCONV_THEN(status, apply(a, &b));
  free(b.cases);
  free(b.inputs);
  free(b.targets);
  free(b.classes);
  free(b.values);
  free(b.probabilities);
  return status;
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

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
  options.regression = is_regression(a);
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
  if (c->common->report && is_regression(a))
    return gconv_refuse("--report: is about classes, and %s has none", c->path);
  GCONV_TRY(open_data(a));
  GCONV_TRY(open_device(a));
  if (c->evaluate && !is_regression(a))
    GCONV_TRY(gconv_confusion_begin_data(gconv_dataset_get_info(a->data), &c->confusion));
  return gconv_classify_open_output(c);
}

int gconv_classify_svm(gconv_classifying *c) {
  applying a = {.c = c};
  c->unit = "case";
  gconv_status status = prepare(&a);
  GCONV_THEN(status, apply_all(&a));
  int result = gconv_classify_end(c, status, false);
  gconv_dataset_free(a.data);
  gconv_svm_free(a.model);
  return result;
}
