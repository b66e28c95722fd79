/* SPDX-License-Identifier: MIT */
/*
 * The text of LIBSVM's models: lines "keyword values", a line "SV", and a line for each support vector: its coefficients and
 * its entries, "index:value".
 *
 * What LIBSVM has no place for is written after the last vector, where LIBSVM stops reading, in lines that begin with '#':
 * the number of columns, notes about each column, the names of the classes, the scaling of columns and, for pixels, the
 * features and the colours of classes. "SV # notes follow" announces these lines, and "# end" is the last one, so that a
 * truncated file is recognised. LIBSVM ignores what follows SV on its line.
 */
#include "svm/text.h"
#include "base/arguments.h"
#include "base/file.h"
#include "data/labels.h"
#include "data/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {"c_svc", "epsilon_svr"};
static const char *const kernel_names[] = {"rbf", "linear", "polynomial", "sigmoid"};
enum { TYPES = 2, KERNELS = 4 };

/* ---- Writing ---- */

static gconv_status put_numbers(gconv_sink *sink, const char *keyword, const double *numbers, size_t count) {
  GCONV_TRY(gconv_sink_print(sink, "%s", keyword));
  for (size_t i = 0; i < count; i++)
    GCONV_TRY(gconv_sink_print(sink, " %.17g", numbers[i]));
  return gconv_sink_print(sink, "\n");
}

/* True if a name is a whole number that LIBSVM reads and writes without change. */
static bool is_label(const char *name) {
  char again[24];
  char *end;
  errno = 0;
  long value = strtol(name, &end, 10);
  if (errno != 0 || *end || value < INT32_MIN || value > INT32_MAX)
    return false;
  snprintf(again, sizeof again, "%ld", value);
  return strcmp(name, again) == 0;
}

static bool are_labels(const gconv_svm *model) {
  bool all = true;
  for (size_t c = 0; c < model->info.class_count; c++)
    all = all && is_label(model->classes[c]);
  return all;
}

static gconv_status put_header(gconv_sink *sink, const gconv_svm *model) {
  const gconv_svm_info *info = &model->info;
  bool classes = info->type == GCONV_SVM_C_SVC, numeric = are_labels(model);
  size_t machines = gconv_svm_machines(model);
  GCONV_TRY(gconv_sink_print(sink, "svm_type %s\nkernel_type %s\n", type_names[info->type], kernel_names[info->kernel]));
  if (info->kernel == GCONV_SVM_POLYNOMIAL)
    GCONV_TRY(gconv_sink_print(sink, "degree %d\n", (int)info->degree));
  if (info->kernel != GCONV_SVM_LINEAR)
    GCONV_TRY(gconv_sink_print(sink, "gamma %.17g\n", info->gamma));
  if (info->kernel == GCONV_SVM_POLYNOMIAL || info->kernel == GCONV_SVM_SIGMOID)
    GCONV_TRY(gconv_sink_print(sink, "coef0 %.17g\n", info->coef0));
  GCONV_TRY(gconv_sink_print(sink, "nr_class %zu\ntotal_sv %zu\n", classes ? info->class_count : 2, info->vector_count));
  GCONV_TRY(put_numbers(sink, "rho", model->rho, machines));
  if (classes) {
    GCONV_TRY(gconv_sink_print(sink, "label"));
    for (size_t c = 0; c < info->class_count; c++)
      GCONV_TRY(numeric ? gconv_sink_print(sink, " %s", model->classes[c]) : gconv_sink_print(sink, " %zu", c + 1));
    GCONV_TRY(gconv_sink_print(sink, "\n"));
  }
  if (model->prob_a)
    GCONV_TRY(put_numbers(sink, "probA", model->prob_a, machines));
  if (model->prob_b)
    GCONV_TRY(put_numbers(sink, "probB", model->prob_b, machines));
  if (classes) {
    GCONV_TRY(gconv_sink_print(sink, "nr_sv"));
    for (size_t c = 0; c < info->class_count; c++)
      GCONV_TRY(gconv_sink_print(sink, " %zu", model->class_vectors[c]));
    GCONV_TRY(gconv_sink_print(sink, "\n"));
  }
  return gconv_sink_print(sink, "SV %s\n", GCONV_SVM_PROMISE);
}

static gconv_status put_vectors(gconv_sink *sink, const gconv_svm *model) {
  size_t rows = gconv_svm_coefficient_rows(model), count = model->info.vector_count;
  for (size_t i = 0; i < count; i++) {
    const gconv_svm_row *row = &model->vectors.rows[i];
    for (size_t r = 0; r < rows; r++)
      GCONV_TRY(gconv_sink_print(sink, "%.17g ", model->coefficients[r * count + i]));
    for (size_t k = 0; k < row->count; k++)
      GCONV_TRY(gconv_sink_print(sink, "%u:%.9g ", row->columns[k] + 1, (double)row->values[k]));
    GCONV_TRY(gconv_sink_print(sink, "\n"));
  }
  return GCONV_OK;
}

/* Writes the line "# BEFORE NAME". In the name, a line feed becomes \n, a carriage return \r, and \ becomes \\. */
static gconv_status put_name(gconv_sink *sink, const char *before, const char *name) {
  GCONV_TRY(gconv_sink_print(sink, "# %s ", before));
  for (; *name; name++) {
    const char *escaped = *name == '\n' ? "\\n" : *name == '\r' ? "\\r" : *name == '\\' ? "\\\\" : NULL;
    GCONV_TRY(gconv_sink_write(sink, escaped ? escaped : name, escaped ? 2 : 1));
  }
  return gconv_sink_print(sink, "\n");
}

/* Writes the number, mean, deviation, origin and name of each column. */
static gconv_status put_columns(gconv_sink *sink, const gconv_column_notes *notes) {
  for (size_t c = 0; c < notes->count && notes->means && notes->deviations; c++) {
    char before[120];
    snprintf(before, sizeof before, "column %zu %.17g %.17g %.17g", c + 1, notes->means[c], notes->deviations[c],
             notes->origins ? notes->origins[c] : 0);
    GCONV_TRY(put_name(sink, before, notes->names ? notes->names[c] : ""));
  }
  return GCONV_OK;
}

static gconv_status put_notes(gconv_sink *sink, const gconv_svm *model) {
  const gconv_svm_info *info = &model->info;
  GCONV_TRY(gconv_sink_print(sink, "# columns %zu\n", info->columns));
  if (!are_labels(model))
    for (size_t c = 0; c < info->class_count; c++)
      GCONV_TRY(put_name(sink, "class", model->classes[c]));
  GCONV_TRY(put_columns(sink, &model->notes));
  if (info->label)
    GCONV_TRY(put_name(sink, "label", info->label));
  if (info->features)
    GCONV_TRY(gconv_sink_print(sink, "# features %s\n", info->features));
  for (size_t c = 0; c < info->class_count && info->palette; c++) {
    const uint8_t *colour = info->palette + 3 * c;
    GCONV_TRY(gconv_sink_print(sink, "# colour %d %d %d\n", colour[0], colour[1], colour[2]));
  }
  if (model->range.least)
    GCONV_TRY(gconv_sink_print(sink, "# scale %.17g %.17g%s\n", model->range.lower, model->range.upper,
                               info->scaling == GCONV_SVM_SCALE_STANDARD ? " standard" : ""));
  for (size_t c = 0; c < info->columns && model->range.least; c++)
    GCONV_TRY(gconv_sink_print(sink, "# range %zu %.17g %.17g\n", c + 1, model->range.least[c], model->range.most[c]));
  return gconv_sink_print(sink, "# end\n");
}

gconv_status gconv_svm_write(const char *path, const gconv_svm *model) {
  GCONV_NEED(path, model);
  gconv_sink *sink;
  GCONV_TRY(gconv_sink_open(path, &sink));
  gconv_status status = put_header(sink, model);
  GCONV_THEN(status, put_vectors(sink, model));
  GCONV_THEN(status, put_notes(sink, model));
  return gconv_sink_end(sink, status);
}
