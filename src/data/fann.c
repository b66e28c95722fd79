/* SPDX-License-Identifier: MIT */
/* FANN's data: a first line "CASES INPUTS OUTPUTS", then the inputs and outputs of each case, in lines of any length. */
#include "data/table.h"

#include <math.h>
#include <stdlib.h>

static bool is_count(double number) {
  return number >= 1 && number <= 1e9 && number == floor(number);
}

/* True if there are as many numbers as the first line says. If the file is longer than SHOWN bytes, only its beginning is
 * known. Then it is taken for FANN's if lines of inputs and of outputs alternate, or if lines differ in length, unlike a
 * table's. */
static bool recognise(const uint8_t *bytes, size_t size) {
  /* SHOWN: how many bytes are known. MOST: if the first line of inputs is longer, there must be more inputs than this. */
  enum { SHOWN = 4096, MOST = 256 };
  double head[3], unused;
  const size_t first = gconv_first_numbers(bytes, size, 0, head, 3);
  size_t total = first, count = 0, lines = 1;
  bool differ = first != 3;
  if (first == SIZE_MAX || first < 3 || !is_count(head[0]) || !is_count(head[1]) || !is_count(head[2]))
    return false;
  for (; (count = gconv_first_numbers(bytes, size, lines, &unused, 0)) != SIZE_MAX; lines++) {
    differ |= count > 0 && count != 3;
    total += count;
  }
  const bool whole = size < SHOWN;
  if (whole && (double)total == 3 + head[0] * (head[1] + head[2]))
    return true;
  if (first != 3)
    return false;
  const size_t inputs = gconv_first_numbers(bytes, size, 1, &unused, 0);
  const size_t outputs = gconv_first_numbers(bytes, size, 2, &unused, 0);
  if (inputs == SIZE_MAX) /* the line is longer than the known bytes */
    return head[1] > MOST;
  return (!whole && differ) || ((double)inputs == head[1] && (outputs == SIZE_MAX || (double)outputs == head[2]));
}

/* The state of reading numbers in lines of any length. */
typedef struct reading {
  gconv_lines lines;
  gconv_row line; /* the numbers of the current line */
  size_t at;      /* the index of the next number in `line` */
} reading;

/* Reads the next line with numbers, unless some are left. */
static gconv_status fill(reading *r, bool *found) {
  *found = true;
  while (r->at == r->line.count && *found) {
    r->at = r->line.count = 0;
    GCONV_TRY(gconv_lines_next_filled(&r->lines, found));
    if (*found)
      GCONV_TRY(gconv_lines_numbers(&r->lines, &r->line));
  }
  return GCONV_OK;
}

static gconv_status take(reading *r, double count, gconv_row *row) {
  bool found;
  for (double i = 0; i < count; i++) {
    GCONV_TRY(fill(r, &found));
    if (!found)
      return gconv_fail(GCONV_BAD_FILE, "%s: the file ends too early: fewer cases follow than its first line promises",
                        r->lines.source->name);
    GCONV_TRY(gconv_row_add(row, r->line.items[r->at++]));
  }
  return GCONV_OK;
}

static gconv_status read_head(reading *r, const gconv_table *table, double head[3]) {
  bool found;
  GCONV_TRY(fill(r, &found));
  bool good = r->line.count >= 3;
  for (; r->at < 3 && good; r->at++)
    good = is_count(head[r->at] = r->line.items[r->at]);
  if (!good)
    return gconv_lines_fail(&r->lines, "the first line must have the numbers of cases, inputs and outputs");
  return gconv_table_check_columns(table, (uint64_t)(head[1] > head[2] ? head[1] : head[2]));
}

static gconv_status read_cases(reading *r, gconv_table *table) {
  double head[3];
  bool found;
  GCONV_TRY(read_head(r, table, head));
  for (double i = 0; i < head[0]; i++) {
    GCONV_TRY(take(r, head[1], &table->row));
    GCONV_TRY(take(r, head[2], &table->target));
    if (table->unlabelled)
      table->target.count = 0;
    GCONV_TRY(gconv_table_count_gaps(table, &r->lines));
    GCONV_TRY(gconv_table_end_row(table, 0));
  }
  GCONV_TRY(fill(r, &found));
  return found ? gconv_lines_fail(&r->lines, "numbers follow the last case: the first line promises %.0f", head[0])
               : GCONV_OK;
}

static gconv_status read_fann(gconv_source *source, gconv_table *table) {
  reading r = {.lines = {.source = source}};
  if (table->of_targets)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: FANN's data have inputs, where targets alone are expected", table->path);
  gconv_status status = read_cases(&r, table);
  gconv_lines_free(&r.lines);
  free(r.line.items);
  return status;
}

const gconv_table_syntax gconv_table_syntax_fann = {
    .name = "fann",
    .help = "FANN's data: cases inputs outputs, then the numbers of each case",
    .extensions = "data train",
    .recognise = recognise,
    .read = read_fann,
};
