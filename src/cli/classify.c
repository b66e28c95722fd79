/* SPDX-License-Identifier: MIT */
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/rows.h"
#include "cli/sandbox.h"
#include "cli/telling.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- Outputs ---------------------------------------------------------------------------------------------------------- */

gconv_status gconv_classify_check_outputs(const gconv_classifying *c) {
  const gconv_common *common = c->common;
  char *paths[] = {(char *)c->path, (char *)c->input, (char *)c->cases->targets};
  const gconv_texts read = {paths, c->cases->targets ? 3 : 2};
  const char *outputs[] = {common->output, common->report};
  gconv_sandbox_files(common, outputs, 2, true);
  GCONV_TRY(gconv_evaluation_check_report(common->report, c->evaluate, &read));
  if (!common->output || strcmp(common->output, "-") == 0)
    return GCONV_OK;
  return gconv_data_check_output("-o", common->output, "csv txt", "a list of predictions", &read);
}

gconv_status gconv_classify_open_output(gconv_classifying *c) {
  const char *output = c->common->output;
  const bool standard = !output || strcmp(output, "-") == 0;
  c->terminal = standard && isatty(STDOUT_FILENO);
  if (!output && c->evaluate)
    return GCONV_OK;
  return gconv_sink_open(standard ? "-" : output, &c->sink);
}

/* ---- Data ------------------------------------------------------------------------------------------------------------- */

/* Returns the columns of a case: a taker of rows takes pictures, too, row after row. */
static int64_t columns_of(const gconv_taken_cases *taken, const gconv_dataset_info *info) {
  return taken->height == 0 ? (int64_t)info->channels * info->height * info->width : info->channels;
}

static bool fits(const gconv_taken_cases *taken, const gconv_dataset *data) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  return columns_of(taken, info) == taken->channels && (taken->height == 0 || info->height == taken->height) &&
         (taken->width == 0 || info->width == taken->width);
}

/* Opens the table again, with the column after the inputs as labels. */
static bool open_without_labels(gconv_dataset_options options, const gconv_taken_cases *taken, gconv_dataset **data) {
  char label[24];
  gconv_dataset *without = NULL;
  snprintf(label, sizeof label, "%d", (int)taken->channels + 1);
  options.label = label;
  if (gconv_dataset_open(&options, &without) != GCONV_OK || !fits(taken, without)) {
    gconv_dataset_free(without);
    return false;
  }
  gconv_dataset_free(*data);
  *data = without;
  return true;
}

gconv_status gconv_classify_open_data(const gconv_classifying *c, gconv_dataset_options options,
                                      const gconv_taken_cases *taken, gconv_dataset **data) {
  const bool table = options.kind == GCONV_DATASET_TABLE;
  options.inputs = c->input;
  options.targets = c->cases->targets;
  options.missing = gconv_cases_missing(c->cases);
  options.unlabelled = !c->evaluate;
  options.others = c->evaluate;
  gconv_status status = gconv_dataset_open(&options, data);
  char reason[1024]; /* the next attempt may fail for another reason */
  if (status == GCONV_OK && fits(taken, *data))
    return GCONV_OK;
  snprintf(reason, sizeof reason, "%s", gconv_last_error());
  if (options.unlabelled && !options.label && table && open_without_labels(options, taken, data)) {
    if (!c->common->quiet)
      gconv_say("%s: its last column is taken for labels, and passed over", options.inputs);
    return GCONV_OK;
  }
  if (status != GCONV_OK)
    return gconv_set_error(status, reason);
  const gconv_dataset_info *info = gconv_dataset_get_info(*data);
  if (!table)
    return gconv_refuse("%s: windows have %d samples of %d channels, and the network takes %d of %d", options.inputs,
                        (int)info->width, (int)info->channels, (int)taken->width, (int)taken->channels);
  if (taken->height > 1 || (taken->height == 1 && info->height > 1))
    return gconv_refuse("%s: has cases of %d x %d x %d numbers, channels x height x width, where the %s takes %d x %d x %d",
                        options.inputs, (int)info->channels, (int)info->height, (int)info->width, taken->taker,
                        (int)taken->channels, (int)taken->height, (int)taken->width);
  return gconv_refuse("%s: has %lld columns%s, where the %s takes %d%s", options.inputs, (long long)columns_of(taken, info),
                      c->evaluate ? " beside the labels" : "", taken->taker, (int)taken->channels,
                      options.label ? "" : "; --label names the column of labels");
}

/* ---- Predictions ------------------------------------------------------------------------------------------------------ */

/* Writes the first line, if it is not written yet. The number of outputs is known only with the first prediction. */
static gconv_status put_header(gconv_classifying *c, size_t outputs) {
  if (c->begun)
    return GCONV_OK;
  c->begun = true;
  GCONV_TRY(gconv_sink_print(c->sink, "%s", strcmp(c->unit, "image") == 0 ? "path" : c->unit));
  if (c->class_count > 0)
    return gconv_sink_print(c->sink, ",class%s%s%s\n", c->certainty ? "," : "", c->certainty ? c->certainty : "",
                            c->evaluate ? ",label" : "");
  for (size_t k = 0; k < outputs; k++)
    GCONV_TRY(gconv_sink_print(c->sink, ",output%zu", k + 1));
  return gconv_sink_print(c->sink, "\n");
}

static gconv_status put_class(const gconv_classifying *c, const gconv_prediction *p) {
  GCONV_TRY(gconv_sink_print(c->sink, ","));
  GCONV_TRY(gconv_rows_field(c->sink, c->terminal, c->classes[p->taken_for]));
  if (c->certainty)
    GCONV_TRY(gconv_sink_print(c->sink, ",%.6g", p->certainty));
  if (!c->evaluate)
    return GCONV_OK;
  GCONV_TRY(gconv_sink_print(c->sink, ","));
  return gconv_rows_field(c->sink, c->terminal, gconv_confusion_name(&c->confusion, p->class));
}

static double value_of(const gconv_prediction *p, size_t output) {
  return p->outputs ? (double)p->outputs[output] : p->value;
}

static void note_number(gconv_classifying *c, double output, double target) {
  c->squares += (output - target) * (output - target);
  c->first = c->numbers == 0 ? target : c->first;
  c->sum += target - c->first;
  c->spread += (target - c->first) * (target - c->first);
  c->numbers++;
}

gconv_status gconv_classify_take(gconv_classifying *c, const char *name, const gconv_prediction *p) {
  for (size_t k = 0; k < p->count && p->targets; k++)
    note_number(c, value_of(p, k), (double)p->targets[k]);
  if (p->class != SIZE_MAX && p->class != p->taken_for && c->common->report)
    GCONV_TRY(gconv_mistakes_add(&c->mistakes, name, p->class, p->taken_for, p->certainty));
  if (!c->sink)
    return GCONV_OK;
  GCONV_TRY(put_header(c, p->count));
  GCONV_TRY(gconv_rows_field(c->sink, c->terminal, name));
  for (size_t k = 0; k < p->count && c->class_count == 0; k++)
    GCONV_TRY(gconv_sink_print(c->sink, ",%.9g", value_of(p, k)));
  if (c->class_count > 0)
    GCONV_TRY(put_class(c, p));
  return gconv_sink_print(c->sink, "\n");
}

static gconv_status take_case(void *user, const gconv_prediction *p) {
  gconv_classifying *c = user;
  char name[24];
  snprintf(name, sizeof name, "%zu", c->hop > 0 ? p->number * c->hop : p->number + 1);
  return gconv_classify_take(c, name, p);
}

gconv_status gconv_classify_data(gconv_classifying *c, const gconv_network *network, const gconv_svm *svm,
                                 const gconv_dataset *data) {
  gconv_status status = gconv_predict_all(network, svm, c->device, data, &c->confusion, take_case, c);
  c->confusion.names = c->classes; /* these names stay when the data are freed */
  return status;
}

/* ---- What is found ---------------------------------------------------------------------------------------------------- */

static void print_json(FILE *out, json_t *json, const gconv_chosen_device *device) {
  gconv_json_put(json, "device", device->name);
  gconv_json_put(json, "why", device->why);
  gconv_tell_end(out, json, JSON_INDENT(2));
}

void gconv_classify_print_json(FILE *out, const gconv_confusion *found, const gconv_chosen_device *device) {
  print_json(out, gconv_data_confusion_json(found), device);
}

static void print_classes(const gconv_classifying *c, FILE *out) {
  const gconv_confusion *found = &c->confusion;
  if (c->common->json) {
    gconv_classify_print_json(out, found, &c->chosen);
    return;
  }
  fprintf(out, "%.2f%% right: %zu of %zu\n", found->cases ? 100.0 * (double)found->right / (double)found->cases : 0,
          found->right, found->cases);
  gconv_data_print_confusion(out, found);
}

static void print_errors(const gconv_classifying *c, FILE *out) {
  const double count = (double)c->numbers, variance = c->spread / count - c->sum / count * (c->sum / count);
  const double rmse = sqrt(c->squares / count), r2 = variance > 0 ? 1 - c->squares / count / variance : (double)NAN;
  if (c->common->json) {
    json_t *json = json_object();
    gconv_json_put(json, "numbers", c->numbers);
    gconv_json_put(json, "rmse", rmse);
    gconv_json_put(json, "r2", r2);
    print_json(out, json, &c->chosen);
    return;
  }
  fprintf(out, "%zu numbers: root of the mean squared error %.6g", c->numbers, rmse);
  fprintf(out, variance > 0 ? ", R2 %.6g\n" : "\n", r2);
}

/* ---- The end ---------------------------------------------------------------------------------------------------------- */

static gconv_status complete(gconv_classifying *c, bool pictures) {
  const gconv_common *common = c->common;
  const gconv_evaluation_page page = {.model = c->path,
                                      .input = c->input,
                                      .unit = c->unit,
                                      .found = &c->confusion,
                                      .mistakes = &c->mistakes,
                                      .pictures = pictures};
  gconv_sink *sink = c->sink;
  c->sink = NULL;
  if (sink)
    GCONV_TRY(gconv_sink_commit(sink, false));
  return common->report ? gconv_evaluation_write(common->report, &page) : GCONV_OK;
}

int gconv_classify_end(gconv_classifying *c, gconv_status status, bool pictures) {
  GCONV_THEN(status, complete(c, pictures));
  gconv_sink_discard(c->sink);
  if (status == GCONV_OK && !c->common->quiet)
    gconv_confusion_tell_others(&c->confusion, c->input, c->unit);
  FILE *out = c->common->output && strcmp(c->common->output, "-") == 0 ? stderr : stdout;
  if (status == GCONV_OK && c->evaluate && c->confusion.classes > 0)
    print_classes(c, out);
  else if (status == GCONV_OK && c->evaluate && c->numbers > 0)
    print_errors(c, out);
  gconv_confusion_free(&c->confusion);
  gconv_mistakes_free(&c->mistakes);
  gconv_device_close(c->device);
  return gconv_say_end(status);
}
