/* SPDX-License-Identifier: MIT */
#include "cli/classify.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/rows.h"
#include "cli/sandbox.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- Outputs ---------------------------------------------------------------------------------------------------------- */

gconv_status gconv_classify_check_outputs(const gconv_classifying *c) {
  const gconv_common *common = c->common;
  char *paths[] = {(char *)c->path, (char *)c->input};
  const gconv_texts read = {paths, 2};
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

gconv_status gconv_classify_put_label(const gconv_classifying *c, size_t class) {
  if (!c->evaluate)
    return GCONV_OK;
  GCONV_TRY(gconv_sink_print(c->sink, ","));
  return gconv_rows_field(c->sink, c->terminal, gconv_confusion_name(&c->confusion, class));
}

/* ---- Data ------------------------------------------------------------------------------------------------------------- */

static bool fits(const gconv_taken_cases *taken, const gconv_dataset *data) {
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  return info->channels == taken->channels && (taken->height == 0 || info->height == taken->height) &&
         (taken->width == 0 || info->width == taken->width);
}

/* Opens the table without the column behind the inputs. */
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
  char reason[1024]; /* the next attempt may fail for another */
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
    return gconv_refuse("%s: windows of %d samples of %d channels, where the network takes %d of %d", options.inputs,
                        (int)info->width, (int)info->channels, (int)taken->width, (int)taken->channels);
  return gconv_refuse("%s: has %d columns%s, where the %s takes %d%s", options.inputs, (int)info->channels,
                      c->evaluate ? " beside the labels" : "", taken->taker, (int)taken->channels,
                      options.label ? "" : "; --label names the column of labels");
}

/* ---- What is found ---------------------------------------------------------------------------------------------------- */

void gconv_classify_note_number(gconv_classifying *c, double output, double target) {
  c->squares += (output - target) * (output - target);
  c->first = c->numbers == 0 ? target : c->first;
  c->sum += target - c->first;
  c->spread += (target - c->first) * (target - c->first);
  c->numbers++;
}

gconv_status gconv_classify_note_case(gconv_classifying *c, const char *name, size_t class, size_t taken_for,
                                      double certainty) {
  if (class == taken_for || !c->common->report)
    return GCONV_OK;
  return gconv_mistakes_add(&c->mistakes, name, class, taken_for, certainty);
}

static void print_json(FILE *out, json_t *json, const gconv_chosen_device *device) {
  json_object_set_new(json, "device", json_string(device->name));
  json_object_set_new(json, "why", json_string(device->why));
  gconv_json_print(out, json, JSON_INDENT(2));
  json_decref(json);
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
    json_object_set_new(json, "numbers", json_integer((json_int_t)c->numbers));
    json_object_set_new(json, "rmse", gconv_json_number(rmse));
    json_object_set_new(json, "r2", gconv_json_number(r2));
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
