/* SPDX-License-Identifier: MIT */
/* gconv classify of a support vector machine: predictions of the rows of a table. */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/learn.h"
#include "cli/rows.h"
#include "cli/sandbox.h"
#include "cli/svm.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Reports, of networks too ----------------------------------------------------------------------------------------- */

void gconv_classify_print_json(FILE *out, const gconv_confusion *found, const gconv_chosen_device *device) {
  json_t *json = gconv_data_confusion_json(found);
  json_object_set_new(json, "device", json_string(device->name));
  json_object_set_new(json, "why", json_string(device->why));
  gconv_json_print(out, json, JSON_INDENT(2));
  json_decref(json);
}

void gconv_classify_print(const gconv_classify_settings *settings, const gconv_confusion *found,
                          const gconv_chosen_device *device) {
  FILE *out = settings->job.common.output && strcmp(settings->job.common.output, "-") == 0 ? stderr : stdout;
  if (settings->job.common.json) {
    gconv_classify_print_json(out, found, device);
    return;
  }
  fprintf(out, "%.2f%% right: %zu of %zu\n", found->cases ? 100.0 * (double)found->right / (double)found->cases : 0,
          found->right, found->cases);
  gconv_data_print_confusion(out, found);
}

void gconv_classify_print_errors(FILE *out, size_t numbers, double squares, double sum, double spread) {
  double count = (double)numbers, variance = spread / count - sum / count * (sum / count);
  fprintf(out, "%zu numbers: root of the mean squared error %.6g", numbers, sqrt(squares / count));
  if (variance > 0)
    fprintf(out, ", R2 %.6g", 1 - squares / count / variance);
  fputc('\n', out);
}

/* ---- Predictions ------------------------------------------------------------------------------------------------------ */

typedef struct applying {
  const gconv_classify_settings *settings;
  const char *input;
  gconv_svm *model;
  const gconv_svm_info *info;
  gconv_device *device;
  gconv_chosen_device chosen;
  gconv_dataset *data;
  gconv_sink *sink; /* NULL: predictions are not written */
  bool terminal;
  gconv_confusion confusion;
  gconv_mistakes mistakes;
  double squares, sum, spread;
  size_t numbers;
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
    return gconv_sink_print(a->sink, "case,output1\n");
  return gconv_sink_print(a->sink, "case,class%s%s\n", a->info->probabilities ? ",probability" : "",
                          a->settings->evaluate ? ",label" : "");
}

/* The number of the row of a case, from 1 on. */
static size_t row_of(const applying *a, size_t index) {
  const size_t *rows = gconv_dataset_get_info(a->data)->rows;
  return (rows ? rows[index] : index) + 1;
}

static gconv_status put_case(applying *a, const batch *b, size_t i) {
  GCONV_TRY(gconv_sink_print(a->sink, "%zu,", row_of(a, b->cases[i])));
  if (is_regression(a))
    return gconv_sink_print(a->sink, "%.9g\n", b->values[i]);
  size_t class = (size_t)b->classes[i];
  GCONV_TRY(gconv_rows_field(a->sink, a->terminal, a->info->classes[class]));
  if (b->probabilities)
    GCONV_TRY(gconv_sink_print(a->sink, ",%.6g", b->probabilities[i * a->info->class_count + class]));
  if (a->settings->evaluate) {
    GCONV_TRY(gconv_sink_print(a->sink, ","));
    GCONV_TRY(gconv_rows_field(a->sink, a->terminal, gconv_confusion_name(&a->confusion, (size_t)b->targets[i])));
  }
  return gconv_sink_print(a->sink, "\n");
}

static gconv_status judge_class(applying *a, const batch *b, size_t i) {
  const size_t class = (size_t)b->targets[i], taken_for = (size_t)b->classes[i];
  char name[24];
  gconv_confusion_add(&a->confusion, class, taken_for);
  if (class == taken_for || !a->settings->job.common.report)
    return GCONV_OK;
  snprintf(name, sizeof name, "%zu", row_of(a, b->cases[i]));
  return gconv_mistakes_add(&a->mistakes, name, class, taken_for,
                            b->probabilities ? b->probabilities[i * a->info->class_count + taken_for] : (double)NAN);
}

static gconv_status judge(applying *a, const batch *b, size_t i) {
  if (!a->settings->evaluate)
    return GCONV_OK;
  if (!is_regression(a))
    return judge_class(a, b, i);
  double target = (double)b->targets[i], error = b->values[i] - target;
  a->squares += error * error;
  a->sum += target;
  a->spread += target * target;
  a->numbers++;
  return GCONV_OK;
}

static gconv_status apply(applying *a, batch *b) {
  size_t all = gconv_dataset_get_info(a->data)->cases;
  for (size_t first = 0; first < all; first += b->room) {
    size_t count = all - first < b->room ? all - first : b->room;
    for (size_t i = 0; i < count; i++)
      b->cases[i] = first + i;
    GCONV_TRY(gconv_dataset_read(a->data, 0, b->cases, count, b->inputs, a->settings->evaluate ? b->targets : NULL));
    GCONV_TRY(gconv_svm_predict(a->model, a->device, b->inputs, count, b->classes, b->values, b->probabilities));
    for (size_t i = 0; i < count; i++) {
      GCONV_TRY(judge(a, b, i));
      if (a->sink)
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
  if (status == GCONV_OK && a->sink)
    status = put_header(a);
  if (status == GCONV_OK)
    status = apply(a, &b);
  free(b.cases);
  free(b.inputs);
  free(b.targets);
  free(b.classes);
  free(b.values);
  free(b.probabilities);
  return status;
}

/* ---- The whole -------------------------------------------------------------------------------------------------------- */

static gconv_status open_data(applying *a, gconv_message *message) {
  const gconv_cases *learn = &a->settings->cases;
  const size_t columns = a->info->columns;
  char label[24];
  gconv_dataset_options options = learn->data;
  if (a->settings->job.windows.samples > 0 || a->settings->job.raw)
    return gconv_refuse(message, "--windows and --raw are for networks: a support vector machine takes the rows of a table");
  options.kind = GCONV_DATASET_TABLE;
  options.inputs = a->input;
  options.targets = learn->targets;
  options.missing = gconv_cases_missing(learn);
  options.columns = columns;
  options.classes = a->info->classes;
  options.class_count = a->info->class_count;
  options.regression = is_regression(a);
  options.usual_label = a->info->label;
  options.like = a->info->notes;
  options.unlabelled = !a->settings->evaluate;
  options.others = a->settings->evaluate;
  gconv_status status = gconv_dataset_open(&options, &a->data);
  bool fits = status == GCONV_OK && (size_t)gconv_dataset_get_info(a->data)->channels == columns;
  if (fits)
    return GCONV_OK;
  size_t found = status == GCONV_OK ? (size_t)gconv_dataset_get_info(a->data)->channels : 0;
  gconv_learn_complain(status, message);
  if (options.unlabelled && !options.label) { /* the labels may stand behind the inputs */
    gconv_dataset *without = NULL;
    snprintf(label, sizeof label, "%zu", columns + 1);
    options.label = label;
    if (gconv_dataset_open(&options, &without) == GCONV_OK && (size_t)gconv_dataset_get_info(without)->channels == columns) {
      gconv_dataset_free(a->data);
      a->data = without;
      if (!a->settings->job.common.quiet)
        gconv_say("%s: its last column is taken for labels, and passed over", a->input);
      return GCONV_OK;
    }
    gconv_dataset_free(without);
  }
  if (status != GCONV_OK)
    return status;
  return gconv_refuse(message, "%s: has %zu columns%s, where the model takes %zu%s", a->input, found,
                      a->settings->evaluate ? " beside the labels" : "", columns,
                      learn->data.label ? "" : "; --label names the column of labels");
}

static gconv_status open_device(applying *a) {
  const gconv_classify_settings *s = a->settings;
  const bool tanh = a->info->kernel == GCONV_SVM_SIGMOID,
             any = !s->job.common.device || strcmp(s->job.common.device, "auto") == 0;
  const int threads = gconv_settle_threads(s->job.common.threads, s->job.common.quiet);
  const double cases = (double)gconv_dataset_get_info(a->data)->cases;
  const gconv_svm_effort effort = {cases * (double)a->info->vector_count, (double)a->info->columns, 0};
  const char *name = tanh ? "cpu" : s->job.common.device;
  char why[120];
  if (!gconv_svm_choose(name, &effort, threads, &name, why, sizeof why))
    snprintf(why, sizeof why, "%s", tanh ? "tanh has other bits on a GPU" : any ? GCONV_WHY_NO_GPU : "");
  GCONV_TRY(gconv_device_open(name, threads, &a->device));
  gconv_device_choose(&a->chosen, gconv_device_get_info(a->device)->name, why);
  gconv_device_tell(&s->job.common, &a->chosen);
  return GCONV_OK;
}

static gconv_status prepare(applying *a, const char *path, gconv_message *message) {
  const gconv_classify_settings *s = a->settings;
  const char *output = s->job.common.output;
  char *paths[] = {(char *)path, (char *)a->input};
  const gconv_texts read = {paths, 2};
  const char *outputs[] = {output, s->job.common.report};
  gconv_sandbox_files(&s->job.common, outputs, 2, true);
  GCONV_TRY(gconv_evaluation_check_report(s->job.common.report, s->evaluate, &read, message));
  if (output && strcmp(output, "-") != 0)
    GCONV_TRY(gconv_data_check_output("-o", output, "csv txt", "a list of predictions", &read, message));
  GCONV_TRY(gconv_learn_complain(gconv_svm_read(path, &a->model), message));
  a->info = gconv_svm_get_info(a->model);
  if (s->job.common.report && is_regression(a))
    return gconv_refuse(message, "--report: is about classes, and %s has none", path);
  GCONV_TRY(open_data(a, message));
  GCONV_TRY(gconv_learn_complain(open_device(a), message));
  bool standard = !output || strcmp(output, "-") == 0;
  a->terminal = standard && isatty(STDOUT_FILENO);
  if (s->evaluate && !is_regression(a))
    GCONV_TRY(gconv_learn_complain(gconv_confusion_begin_data(gconv_dataset_get_info(a->data), &a->confusion), message));
  if (output || !s->evaluate)
    GCONV_TRY(gconv_learn_complain(gconv_sink_open(standard ? "-" : output, &a->sink), message));
  return GCONV_OK;
}

int gconv_classify_svm(const gconv_classify_settings *settings, const char *path, const char *input) {
  applying a = {.settings = settings, .input = input};
  gconv_message message;
  gconv_status status = prepare(&a, path, &message);
  if (status == GCONV_OK)
    status = gconv_learn_complain(apply_all(&a), &message);
  if (status == GCONV_OK && a.sink) {
    status = gconv_learn_complain(gconv_sink_commit(a.sink, false), &message);
    a.sink = NULL;
  } else {
    gconv_sink_discard(a.sink);
  }
  if (status == GCONV_OK && settings->job.common.report) {
    const gconv_evaluation_page page = {
        .model = path, .input = input, .unit = "case", .found = &a.confusion, .mistakes = &a.mistakes};
    status = gconv_learn_complain(gconv_evaluation_write(settings->job.common.report, &page), &message);
  }
  if (status == GCONV_OK && !settings->job.common.quiet)
    gconv_confusion_tell_others(&a.confusion, input, "case");
  if (status == GCONV_OK && a.confusion.classes > 0)
    gconv_classify_print(settings, &a.confusion, &a.chosen);
  if (status == GCONV_OK && a.numbers > 0)
    gconv_classify_print_errors(stdout, a.numbers, a.squares, a.sum, a.spread);
  if (status != GCONV_OK)
    gconv_say("%s", message.text);
  gconv_confusion_free(&a.confusion);
  gconv_mistakes_free(&a.mistakes);
  gconv_dataset_free(a.data);
  gconv_svm_free(a.model);
  gconv_device_close(a.device);
  return status == GCONV_OK ? GCONV_EXIT_OK : status == GCONV_BAD_ARGUMENT ? GCONV_EXIT_USAGE : GCONV_EXIT_FAILED;
}
