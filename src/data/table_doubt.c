/* SPDX-License-Identifier: MIT */
/* Decides, once all rows are read, whether the first one is a header with numbers. */
#include "base/memory.h"
#include "data/field.h"
#include "data/table.h"

#include <string.h>

/* Counts cases by class. *first: the number of the first row's class; *others_recur: each other class has at least two. */
static gconv_status count_first(const gconv_table *table, size_t *first, bool *others_recur) {
  const float *targets = (const float *)(const void *)table->targets.bytes;
  GCONV_FREED size_t *counts = calloc(table->labels.count, sizeof *counts);
  GCONV_NEED_MEMORY(counts, "%s: no memory for the cases of %zu classes", table->path, table->labels.count);
  for (size_t i = 0; i < table->cases; i++)
    counts[(size_t)targets[i]]++;
  *first = counts[0];
  *others_recur = table->labels.count > 2;
  for (size_t k = 1; k < table->labels.count; k++)
    *others_recur &= counts[k] > 1;
  return GCONV_OK;
}

/* True if all labels but the first are numbers. */
static bool are_numbers(const gconv_labels *labels) {
  bool are = true;
  for (size_t i = 1; i < labels->count && are; i++) {
    double value;
    are = gconv_field_read(labels->names[i], labels->names[i] + strlen(labels->names[i]), &value) == GCONV_FIELD_NUMBER;
  }
  return are;
}

/* True if the first row counts 0, 1, 2 ... or years, and the second row does not continue the count. If the second row has
 * the same step as the years in the first, both are cases. */
static bool counts_alone(const gconv_table *table) {
  enum { FEWEST = 4, FEWEST_YEARS = 3 };
  const size_t fields = table->columns + (table->labelled ? 1 : table->outputs);
  const double *row = (const double *)(const void *)table->inputs.bytes, *next = row + table->columns;
  if (table->doubt == GCONV_DOUBT_YEARS)
    return fields >= FEWEST_YEARS && table->columns > 1 && next[1] - next[0] != row[1] - row[0];
  return table->doubt == GCONV_DOUBT_COUNT && fields >= FEWEST && next[0] != (double)fields;
}

/* With labels, the first row is a header if no other case has its label, and one of these is true: each other label has two
 * cases; all other labels are numbers; or the row counts years or 0, 1, 2 ... Without labels, it is a header if it
 * counts. */
static gconv_status is_header(const gconv_table *table, bool *is) {
  size_t first = 0;
  bool others_recur = false;
  if (!table->labelled) {
    *is = counts_alone(table);
    return GCONV_OK;
  }
  GCONV_TRY(count_first(table, &first, &others_recur));
  *is = first == 1 && (others_recur || (table->doubt != GCONV_DOUBT_COUNT && are_numbers(&table->labels)) ||
                       table->doubt == GCONV_DOUBT_YEARS || counts_alone(table));
  return GCONV_OK;
}

/* Removes the first class; the numbers of all others decrease by 1. */
static gconv_status forget_class(gconv_table *table) {
  const float *old = (const float *)(const void *)table->targets.bytes;
  GCONV_ENDED_BY(gconv_store_free) gconv_store classes = {.limit = table->targets.limit};
  gconv_labels_forget_first(&table->labels);
  for (size_t i = 0; i < table->cases; i++) {
    const float class = old[i] - 1;
    GCONV_TRY(gconv_store_append(&classes, &class, sizeof class));
  }
  return gconv_store_replace(&table->targets, &classes);
}

/* Removes the first row, which is the header. */
static gconv_status drop_first(gconv_table *table) {
  gconv_store_drop(&table->inputs, table->columns * sizeof(double));
  gconv_store_drop(&table->targets, (table->labelled ? 1 : table->outputs) * sizeof(float));
  table->cases--;
  for (size_t i = 0; table->rows && i < table->cases; i++)
    table->rows[i] = table->rows[i + 1] - 1;
  if (table->labelled)
    GCONV_TRY(forget_class(table));
  return GCONV_OK;
}

/* True if the first row is the first line of FANN's data, "CASES INPUTS OUTPUTS", above rows of three numbers. fann.c cannot
 * recognise this in long files, because it does not see their end. */
static bool begins_fann(const gconv_table *table) {
  enum { NUMBERS = 3 };
  const double *row = (const double *)(const void *)table->inputs.bytes;
  const float *target = (const float *)(const void *)table->targets.bytes;
  const size_t outputs = table->labelled ? 1 : table->outputs, rows = table->cases + table->dropped;
  if (table->options->syntax || table->sparse || table->names || table->of_targets || outputs != 1 ||
      table->columns != NUMBERS - 1 || table->cases < 2 || row[0] != (double)(rows - 1))
    return false;
  const double last = table->labelled ? strtod(table->labels.names[(size_t)target[0]], NULL) : (double)target[0];
  return (row[1] == 1 || row[1] == 2) && row[1] + last == NUMBERS;
}

gconv_status gconv_table_resolve_doubt(gconv_table *table) {
  bool header = false;
  if (begins_fann(table))
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: its first line counts cases, inputs and outputs, as that of FANN's data: name the syntax, fann, "
                      "or csv if the line is a row",
                      table->path);
  if (table->doubt == GCONV_NO_DOUBT)
    return GCONV_OK;
  if (table->cases > 1)
    GCONV_TRY(is_header(table, &header));
  if (!header) {
    gconv_table_free_names(table);
    return GCONV_OK;
  }
  gconv_warn("%s: its first line is taken for a header, as %s%s%s: if it is a case, put names of the columns above it",
             table->path, table->label ? "no other case has the label \"" : "it counts the columns",
             table->label ? table->label : "", table->label ? "\"" : "");
  return drop_first(table);
}
