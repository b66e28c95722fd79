/* SPDX-License-Identifier: MIT */
/* FANN's data: a first line "CASES INPUTS OUTPUTS"; then, of each case, a line of inputs and a line of outputs. */
#include "learn/table.h"

#include <math.h>
#include <stdlib.h>

static bool is_count(double number) {
  return number >= 1 && number <= 1e9 && number == floor(number);
}

static bool recognise(const uint8_t *bytes, size_t size) {
  double head[3], unused;
  if (gconv_first_numbers(bytes, size, 0, head, 3) != 3 || !is_count(head[0]) || !is_count(head[1]) || !is_count(head[2]))
    return false;
  size_t inputs = gconv_first_numbers(bytes, size, 1, &unused, 0), outputs = gconv_first_numbers(bytes, size, 2, &unused, 0);
  if (inputs == SIZE_MAX) /* they do not fit into what is shown */
    return head[1] > 256;
  return (double)inputs == head[1] && (outputs == SIZE_MAX || (double)outputs == head[2]);
}

static gconv_status read_head(gconv_lines *lines, const gconv_table *table, double head[3]) {
  gconv_row row = {0};
  bool found;
  gconv_status status = gconv_lines_next_filled(lines, &found);
  if (status == GCONV_OK)
    status = gconv_lines_numbers(lines, &row);
  bool good = row.count == 3;
  for (size_t i = 0; i < 3 && good; i++)
    good = is_count(head[i] = row.items[i]);
  free(row.items);
  if (status == GCONV_OK && !good)
    return gconv_lines_fail(lines, "the first line must have the numbers of cases, inputs and outputs");
  GCONV_TRY(status);
  return gconv_table_check_columns(table, (uint64_t)(head[1] > head[2] ? head[1] : head[2]));
}

/* Reads a line with `count` numbers. */
static gconv_status read_line(gconv_lines *lines, gconv_row *row, double count, const char *what) {
  bool found;
  GCONV_TRY(gconv_lines_next_filled(lines, &found));
  if (!found)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early: fewer cases follow than its first line promises",
                      lines->source->name);
  GCONV_TRY(gconv_lines_numbers(lines, row));
  if ((double)row->count == count)
    return GCONV_OK;
  return gconv_lines_fail(lines, "has %zu numbers, where %.0f %s are expected", row->count, count, what);
}

static gconv_status read_cases(gconv_lines *lines, gconv_table *table) {
  double head[3];
  bool found;
  GCONV_TRY(read_head(lines, table, head));
  for (double i = 0; i < head[0]; i++) {
    GCONV_TRY(read_line(lines, &table->row, head[1], "inputs"));
    GCONV_TRY(read_line(lines, &table->target, head[2], "outputs"));
    if (table->unlabelled)
      table->target.count = 0;
    GCONV_TRY(gconv_table_end_row(table, 0));
  }
  GCONV_TRY(gconv_lines_next_filled(lines, &found));
  return found ? gconv_lines_fail(lines, "follows behind the last case: the first line promises %.0f", head[0]) : GCONV_OK;
}

static gconv_status read_fann(gconv_source *source, gconv_table *table) {
  gconv_lines lines = {.source = source};
  if (table->of_targets)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: FANN's data have inputs, where targets alone are expected", table->path);
  gconv_status status = read_cases(&lines, table);
  gconv_lines_free(&lines);
  return status;
}

const gconv_table_syntax gconv_table_syntax_fann = {
    .name = "fann",
    .help = "FANN's data: cases inputs outputs, then a line of each a case",
    .extensions = "data train",
    .recognise = recognise,
    .read = read_fann,
};
