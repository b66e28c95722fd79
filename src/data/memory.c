/* SPDX-License-Identifier: MIT */
/* Data sets of cases that the caller has in memory. */
#include "base/memory.h"
#include "base/arguments.h"
#include "data/field.h"
#include "data/table.h"

#include <math.h>
#include <string.h>

/* ---- Checking ------------------------------------------------------------------------------------------------------ */

static gconv_status check_rows(const gconv_dataset_options *options) {
  const gconv_dataset_cases *cases = options->cases;
  if (!cases->rows == !cases->wide_rows)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->cases: a table has either rows or wide_rows");
  if (cases->columns < 1 || cases->columns > GCONV_MOST_COLUMNS)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->cases->columns is %zu: it must be 1 to %d", cases->columns,
                      GCONV_MOST_COLUMNS);
  for (size_t i = 0; i < cases->columns && cases->names; i++)
    GCONV_NEED_AS(cases->names[i], "options->cases->names");
  if (options->unlabelled)
    return GCONV_OK;
  if (!cases->labels == !cases->targets)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->cases: a table has either labels or targets, unless it is unlabelled");
  if (cases->targets && (cases->outputs < 1 || cases->outputs > GCONV_MOST_COLUMNS))
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->cases->outputs is %zu: it must be 1 to %d", cases->outputs,
                      GCONV_MOST_COLUMNS);
  return GCONV_OK;
}

static gconv_status check_images(const gconv_dataset_options *options) {
  const gconv_dataset_cases *cases = options->cases;
  GCONV_NEED_AS(cases->images, "options->cases->images");
  if (options->unlabelled)
    return GCONV_OK;
  if (options->kind == GCONV_DATASET_CLASSES)
    GCONV_NEED_AS(cases->labels, "options->cases->labels");
  else
    GCONV_NEED_AS(cases->wanted, "options->cases->wanted");
  return GCONV_OK;
}

gconv_status gconv_dataset_take_cases(gconv_dataset_options *options) {
  const gconv_dataset_cases *cases = options->cases;
  const bool table = options->kind == GCONV_DATASET_TABLE;
  if (options->inputs || options->targets)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->cases are in place of options->inputs and options->targets: give one");
  if (options->kind == GCONV_DATASET_WINDOWS)
    return gconv_fail(GCONV_UNSUPPORTED, "options->cases: signals are read from files");
  if (cases->count < 1)
    return gconv_fail(GCONV_BAD_ARGUMENT, "options->cases->count is 0: there must be one case at least");
  GCONV_TRY(table ? check_rows(options) : check_images(options));
  options->inputs = table ? "the rows" : "the images";
  options->targets = options->unlabelled                     ? NULL
                     : options->kind == GCONV_DATASET_PAIRS  ? "the wanted images"
                     : options->kind == GCONV_DATASET_PIXELS ? "the masks"
                     : cases->labels                         ? "the labels"
                                                             : "the targets";
  return GCONV_OK;
}

/* ---- Tables -------------------------------------------------------------------------------------------------------- */

/* Copies the names of the columns. If a model is given, *order gets the columns that are its own. */
static gconv_status take_names(const gconv_dataset_cases *cases, gconv_table *table, size_t **order) {
  const gconv_column_notes *like = table->options->like;
  size_t label = SIZE_MAX, count = cases->columns;
  if (!cases->names)
    return GCONV_OK;
  if (like && like->names) {
    const gconv_names header = {(char **)cases->names, cases->columns};
    GCONV_TRY(gconv_table_match(table, &header, &label, order));
    count = like->count;
  }
  GCONV_NEW(table->names, count, "no memory for the names of %zu columns", count);
  for (; table->name_count < count; table->name_count++) {
    char *name = strdup(cases->names[*order ? (*order)[table->name_count] : table->name_count]);
    GCONV_NEED_MEMORY(name, "no memory for the names of %zu columns", count);
    table->names[table->name_count] = name;
  }
  return GCONV_OK;
}

static gconv_status take_inputs(const gconv_dataset_cases *cases, gconv_table *table) {
  GCONV_FREED size_t *order = NULL;
  GCONV_TRY(take_names(cases, table, &order));
  gconv_rows rows = {table, order ? table->name_count : cases->columns, SIZE_MAX};
  GCONV_FREED double *row = malloc(rows.width * sizeof *row);
  GCONV_NEED_MEMORY(row, "no memory for a row");
  for (size_t i = 0; i < cases->count; i++) {
    for (size_t k = 0; k < rows.width; k++) {
      const size_t at = i * cases->columns + (order ? order[k] : k);
      row[k] = cases->rows ? (double)cases->rows[at] : cases->wide_rows[at];
    }
    GCONV_TRY(gconv_table_take_row(&rows, row, NULL, i));
  }
  return GCONV_OK;
}

static gconv_status take_labels(const gconv_dataset_cases *cases, gconv_table *table) {
  gconv_rows rows = {table, 1, 0};
  if (table->options->regression)
    return gconv_fail(GCONV_BAD_ARGUMENT, "regression takes targets, which are numbers, and these cases have labels");
  table->labelled = true;
  for (size_t i = 0; i < cases->count; i++) {
    const char *text = cases->labels[i] ? cases->labels[i] : "";
    double number = 0;
    const gconv_field kind = gconv_field_read(text, text + strlen(text), &number);
    number = kind == GCONV_FIELD_GAP ? (double)NAN : kind == GCONV_FIELD_NUMBER ? number : 0;
    GCONV_TRY(gconv_table_take_row(&rows, &number, text, i));
  }
  return GCONV_OK;
}

static gconv_status take_targets(const gconv_dataset_cases *cases, gconv_table *table) {
  const bool one = cases->outputs == 1;
  gconv_rows rows = {table, cases->outputs, one ? 0 : SIZE_MAX};
  table->labelled = one && !table->options->regression;
  table->unlabelled = !one; /* several targets are read as inputs, and then moved */
  for (size_t i = 0; i < cases->count; i++)
    GCONV_TRY(gconv_table_take_row(&rows, cases->targets + i * cases->outputs, NULL, i));
  return GCONV_OK;
}

gconv_status gconv_table_take(const gconv_dataset_cases *cases, gconv_table *table) {
  GCONV_TRY(gconv_table_begin(table, table->of_targets ? table->options->targets : table->options->inputs));
  GCONV_TRY((!table->of_targets ? take_inputs : cases->labels ? take_labels : take_targets)(cases, table));
  return gconv_table_finish(table);
}
