/* SPDX-License-Identifier: MIT */
/* The text of the letters thesis: a first line "Y, X" with the number of outputs and inputs, then a line for each case with
 * Y targets and X inputs, separated by commas or blanks. */
#include "base/memory.h"
#include "data/table.h"

#include <math.h>

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

static gconv_status read_head(gconv_lines *lines, gconv_row *row, size_t *outputs, size_t *inputs) {
  bool found;
  GCONV_TRY(gconv_lines_next_filled(lines, &found));
  GCONV_TRY(gconv_lines_numbers(lines, row));
  if (row->count != 2 || !is_count(row->items[0]) || !is_count(row->items[1]))
    return gconv_lines_fail(lines, "the first line must have the numbers of outputs and of inputs");
  *outputs = (size_t)row->items[0];
  *inputs = (size_t)row->items[1];
  return GCONV_OK;
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
  GCONV_ENDED_BY(gconv_lines_free) gconv_lines lines = {.source = source};
  GCONV_ENDED_BY(gconv_row_free) gconv_row row = {0};
  size_t outputs = 0, inputs = 0;
  bool found;
  if (table->of_targets)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: has inputs, where targets alone are expected", table->path);
  GCONV_TRY(read_head(&lines, &row, &outputs, &inputs));
  for (;;) {
    GCONV_TRY(gconv_lines_next_filled(&lines, &found));
    if (!found)
      return GCONV_OK;
    row.count = 0;
    GCONV_TRY(gconv_lines_numbers(&lines, &row));
    GCONV_TRY(split_line(&lines, table, &row, outputs, inputs));
  }
}

const gconv_table_syntax gconv_table_syntax_letters = {
    .name = "letters",
    .help = "a line \"Y, X\", then Y targets and X inputs a line",
    .extensions = "",
    .recognise = recognise,
    .read = read_letters,
};
