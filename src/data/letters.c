/* SPDX-License-Identifier: MIT */
/* The text of the letters thesis: a first line "Y, X" with the number of outputs and inputs, then a line for each case with
 * Y targets and X inputs, separated by commas or blanks. */
#include "data/table.h"

#include <math.h>
#include <stdlib.h>

static bool is_count(double number) {
  return number >= 1 && number <= GCONV_MOST_COLUMNS && number == floor(number);
}

/* False for one output and one input: CSV has such lines, too. */
static bool recognise(const uint8_t *bytes, size_t size) {
  double head[2], unused;
  if (gconv_first_numbers(bytes, size, 0, head, 2) != 2 || !is_count(head[0]) || !is_count(head[1]))
    return false;
  size_t count = gconv_first_numbers(bytes, size, 1, &unused, 0);
  return count == SIZE_MAX ? head[0] + head[1] > 256 : count > 2 && (double)count == head[0] + head[1];
}

static gconv_status read_head(gconv_lines *lines, size_t *outputs, size_t *inputs) {
  gconv_row row = {0};
  bool found;
  gconv_status status = gconv_lines_next_filled(lines, &found);
  GCONV_THEN(status, gconv_lines_numbers(lines, &row));
  bool good = row.count == 2 && is_count(row.items[0]) && is_count(row.items[1]);
  *outputs = good ? (size_t)row.items[0] : 0;
  *inputs = good ? (size_t)row.items[1] : 0;
  free(row.items);
  if (status == GCONV_OK && !good)
    return gconv_lines_fail(lines, "the first line must have the numbers of outputs and of inputs");
  return status;
}

static gconv_status split_line(gconv_lines *lines, gconv_table *table, const gconv_row *row, size_t outputs, size_t inputs) {
  if (row->count != outputs + inputs)
    return gconv_lines_fail(lines, "has %zu numbers, where %zu targets and %zu inputs are expected", row->count, outputs,
                            inputs);
  for (size_t i = 0; i < outputs && !table->unlabelled; i++)
    GCONV_TRY(gconv_row_add(&table->target, row->items[i]));
  for (size_t i = outputs; i < row->count; i++)
    GCONV_TRY(gconv_row_add(&table->row, row->items[i]));
  GCONV_TRY(gconv_table_count_gaps(table, lines));
  return gconv_table_end_row(table, 0);
}

static gconv_status read_letters(gconv_source *source, gconv_table *table) {
  gconv_lines lines = {.source = source};
  gconv_row row = {0};
  size_t outputs, inputs;
  bool found = true;
  if (table->of_targets)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has inputs, where targets alone are expected", table->path);
  gconv_status status = read_head(&lines, &outputs, &inputs);
  while (status == GCONV_OK && (status = gconv_lines_next_filled(&lines, &found)) == GCONV_OK && found) {
    row.count = 0;
    status = gconv_lines_numbers(&lines, &row);
    GCONV_THEN(status, split_line(&lines, table, &row, outputs, inputs));
  }
  free(row.items);
  gconv_lines_free(&lines);
  return status;
}

const gconv_table_syntax gconv_table_syntax_letters = {
    .name = "letters",
    .help = "a line \"Y, X\", then Y targets and X inputs a line",
    .extensions = "",
    .recognise = recognise,
    .read = read_letters,
};
