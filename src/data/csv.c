/* SPDX-License-Identifier: MIT */
/* CSV: fields separated by commas, semicolons, tabs or blanks, quoted by RFC 4180, with a header or without. */
#include "data/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes "column 3 (height)", and returns `text`. */
static const char *name_column(const gconv_csv *c, size_t index, char text[100]) {
  const char *own = c->header ? c->header[index] : "";
  const int used = snprintf(text, 100, "column %zu", index + 1);
  if (own[0] && strcmp(own, text + strlen("column ")) != 0)
    snprintf(text + used, 100 - (size_t)used, " (%.60s)", own);
  return text;
}

/* Writes the word by which --label names the column, and returns `text`. */
static const char *address_column(const gconv_csv *c, size_t index, char text[100]) {
  if (c->header && c->header[index][0])
    snprintf(text, 100, "%.80s", c->header[index]);
  else
    snprintf(text, 100, "%zu", index + 1);
  return text;
}

/* True if the field would be a number without the marks between its digits. */
static bool has_marks(const gconv_csv_field *f) {
  size_t digits = 0, marks = 0;
  for (const char *at = f->begin; at < f->end; at++) {
    digits += *at >= '0' && *at <= '9';
    marks += strchr("., '_", *at) != NULL;
  }
  return digits > 0 && marks > 0 && digits + marks + (*f->begin == '-' || *f->begin == '+') == (size_t)(f->end - f->begin);
}

static gconv_status complain_number(const gconv_csv *c, size_t index, gconv_field kind) {
  const gconv_csv_field *f = &c->fields[index];
  int shown = (int)(f->end - f->begin < 40 ? f->end - f->begin : 40);
  char name[100], address[100], label[100];
  name_column(c, index, name);
  if (kind == GCONV_FIELD_NOT_FINITE)
    return gconv_lines_fail(&c->lines, "%s is %.*s: numbers must be finite, and fit into float32", name, shown, f->begin);
  if (has_marks(f))
    return gconv_lines_fail(&c->lines,
                            "%s is \"%.*s\", which is no number: write 1234.5 without marks of thousands, and with a point "
                            "(with a comma, if semicolons or tabs separate the fields)",
                            name, shown, f->begin);
  if (index == c->label)
    return gconv_lines_fail(&c->lines, "%s, of the targets, is \"%.*s\", which is no number", name, shown, f->begin);
  if (c->label == SIZE_MAX)
    return gconv_lines_fail(&c->lines, "%s is \"%.*s\", which is no number", name, shown, f->begin);
  return gconv_lines_fail(
      &c->lines,
      "%s is \"%.*s\", which is no number: if it is the column of labels, say --label %s (now it is %s); "
      "--one-hot takes columns of words",
      name, shown, f->begin, address_column(c, index, address), name_column(c, c->label, label));
}

/* Handles a label that is missing. */
static gconv_status miss_label(gconv_csv *c) {
  gconv_table *table = c->table;
  const gconv_csv_field *f = &c->fields[c->label];
  char name[100];
  if (table->missing != GCONV_MISSING_DROP)
    return gconv_lines_fail(&c->lines, "%s, of the labels, is missing%s%.*s%s: --missing drop leaves such lines out",
                            name_column(c, c->label, name), f->end > f->begin ? " (" : "", (int)(f->end - f->begin),
                            f->begin, f->end > f->begin ? ")" : "");
  table->missing_numbers++;
  return table->labelled ? GCONV_OK : gconv_row_add(&table->target, (double)NAN);
}

static gconv_status read_label(gconv_csv *c, size_t *number) {
  const gconv_csv_field *f = &c->fields[c->label];
  gconv_table *table = c->table;
  const char *wrong = NULL;
  double value;
  if (table->unlabelled)
    return GCONV_OK;
  gconv_field kind = gconv_csv_read(c, f, &value);
  const bool name = table->labelled && gconv_field_may_be_name(f->begin, f->end);
  if (kind == GCONV_FIELD_GAP && !name)
    return miss_label(c);
  if (!table->labelled)
    return kind == GCONV_FIELD_NUMBER ? gconv_row_add(&table->target, value) : complain_number(c, c->label, kind);
  char *comma = kind == GCONV_FIELD_NUMBER ? memchr(f->begin, ',', (size_t)(f->end - f->begin)) : NULL;
  if (comma)
    *comma = '.';
  GCONV_TRY(gconv_labels_find(&table->labels, f->begin, f->end, number, &wrong));
  int shown = (int)(f->end - f->begin < 40 ? f->end - f->begin : 40);
  return wrong ? gconv_lines_fail(&c->lines, "the label \"%.*s\" %s", shown, f->begin, wrong) : GCONV_OK;
}

static gconv_status take_word(gconv_csv *c, size_t index, const double *number) {
  const gconv_csv_field *f = &c->fields[index];
  const int shown = (int)(f->end - f->begin < 40 ? f->end - f->begin : 40);
  const char *wrong;
  char name[100];
  GCONV_TRY(gconv_table_take_word(c->table, f->begin, f->end, number, &wrong));
  return wrong ? gconv_lines_fail(&c->lines, "%s: \"%.*s\" %s", name_column(c, index, name), shown, f->begin, wrong)
               : GCONV_OK;
}

static gconv_status read_input(gconv_csv *c, size_t index) {
  gconv_table *table = c->table;
  char name[100];
  double value;
  gconv_field kind = gconv_csv_read(c, &c->fields[index], &value);
  if (table->options->one_hot && !table->options->like && !table->of_targets &&
      (kind == GCONV_FIELD_NUMBER || kind == GCONV_FIELD_TEXT))
    return take_word(c, index, kind == GCONV_FIELD_NUMBER ? &value : NULL);
  if (kind == GCONV_FIELD_NUMBER)
    return gconv_row_add(&table->row, value);
  if (kind != GCONV_FIELD_GAP)
    return complain_number(c, index, kind);
  if (table->missing == GCONV_MISSING_ERROR)
    return gconv_lines_fail(&c->lines,
                            "%s is missing: --missing mean puts in the mean of the column, --missing drop leaves such lines "
                            "out",
                            name_column(c, index, name));
  table->missing_numbers++;
  return gconv_row_add(&table->row, (double)NAN);
}

/* Fails: a field that matches a column by a word of it has a number, which no column of words had in training. */
static gconv_status complain_of_number(const gconv_csv *c, size_t index, const char *column) {
  const gconv_csv_field *f = &c->fields[index];
  const int shown = (int)(f->end - f->begin < 40 ? f->end - f->begin : 40);
  char name[100];
  return gconv_lines_fail(
      &c->lines,
      "%s is %.*s, a number, but the model takes it for a field of words, as its own column is %.60s: if "
      "these are the numbers of that column, give the field this whole name",
      name_column(c, index, name), shown, f->begin, column);
}

/* Reads column j of a model: a number, or 1 if its field has the column's word, else 0. Columns of a field are adjacent. */
static gconv_status read_column(gconv_csv *c, size_t j, bool *known) {
  const gconv_column_notes *like = c->table->options->like;
  const size_t index = c->order[j];
  const gconv_csv_field *f = &c->fields[index];
  const char *word = c->header ? gconv_names_word(like->names[j], c->header[index]) : NULL;
  const char *begin = f->begin + strspn(f->begin, " \t"), *end = f->end;
  double value;
  const gconv_field kind = gconv_csv_read(c, f, &value);
  if (!word || kind == GCONV_FIELD_GAP) {
    *known = false;
    return read_input(c, index);
  }
  if (kind != GCONV_FIELD_TEXT)
    return complain_of_number(c, index, like->names[j]);
  while (end > begin && (end[-1] == ' ' || end[-1] == '\t'))
    end--;
  const bool same = strlen(word) == (size_t)(end - begin) && memcmp(word, begin, strlen(word)) == 0;
  *known |= same;
  const bool last = j + 1 == like->count || c->order[j + 1] != index;
  if (last && !*known && c->unknown++ == 0)
    snprintf(c->unknown_text, sizeof c->unknown_text, "\"%.*s\" in line %llu, of %.80s",
             (int)(end - begin < 40 ? end - begin : 40), begin, (unsigned long long)c->lines.line, c->header[index]);
  *known = last ? false : *known;
  return gconv_row_add(&c->table->row, same);
}

/* Fails if a column that was taken for row numbers has a fraction. */
static gconv_status check_index(gconv_csv *c, size_t index) {
  const gconv_csv_field *f = &c->fields[index];
  double value;
  if (gconv_csv_read(c, f, &value) != GCONV_FIELD_NUMBER || value == floor(value))
    return GCONV_OK;
  return gconv_lines_fail(&c->lines,
                          "column %zu, which has no name and was taken for the numbers of rows, is %.*s: give it a name",
                          index + 1, (int)(f->end - f->begin), f->begin);
}

static gconv_status read_row(gconv_csv *c) {
  size_t label = 0;
  if (c->count != c->width)
    return gconv_lines_fail(&c->lines, "has %zu field%s, where line %llu has %zu", c->count, c->count == 1 ? "" : "s",
                            (unsigned long long)c->first_line, c->width);
  for (size_t i = 0; i < c->count; i++)
    if (i == c->label || i < c->passed)
      GCONV_TRY(i == c->label ? read_label(c, &label) : check_index(c, i));
    else if (!c->order && !(c->table->of_targets && c->label != SIZE_MAX))
      GCONV_TRY(read_input(c, i));
  bool known = false;
  for (size_t j = 0; c->order && j < c->table->options->like->count; j++)
    GCONV_TRY(read_column(c, j, &known));
  c->table->line = c->lines.line;
  return gconv_table_end_row(c->table, label);
}

/* True if a line above the table is a comment. "#N/A,1,2" is not a comment. Nor is "#,name,height", whose first column
 * numbers the rows. With blanks between fields, "# name height" is a comment that may also be a header
 * (gconv_csv_try_comment()). */
static bool is_comment(const gconv_csv *c) {
  const char *text = c->lines.text;
  const size_t length = strcspn(text, (char[]){c->separator, '\0'});
  double value;
  return text[0] == '#' && (length > 1 || !text[length] || c->separator == ' ') &&
         gconv_field_read(text, text + length, &value) != GCONV_FIELD_GAP;
}

static gconv_status keep_comment(gconv_csv *c) {
  free(c->comment);
  c->comment = strdup(c->lines.text + !(c->separator == ' ' && c->lines.text[1] == ' '));
  return c->comment ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a comment", c->table->path);
}

static gconv_status read_lines(gconv_csv *c, gconv_source *source) {
  bool found, named, header = false, begun = false;
  GCONV_TRY(gconv_csv_choose_separator(c, source, &named));
  if (named)
    GCONV_TRY(gconv_lines_next(&c->lines, &found));
  for (;;) {
    GCONV_TRY(gconv_lines_next_filled(&c->lines, &found));
    if (!found)
      return gconv_csv_check_marks(c);
    if (c->width == 0 && is_comment(c)) {
      GCONV_TRY(keep_comment(c));
      continue;
    }
    if (c->width == 0)
      GCONV_TRY(gconv_csv_try_comment(c));
    GCONV_TRY(gconv_csv_split(c));
    header = false;
    if (c->width == 0)
      GCONV_TRY(gconv_csv_begin(c, &header));
    if (!header && !begun) {
      GCONV_TRY(gconv_csv_begin_rows(c, &header));
      begun = !header;
    }
    if (!header)
      GCONV_TRY(read_row(c));
  }
}

static gconv_status read_csv(gconv_source *source, gconv_table *table) {
  gconv_csv c = {.lines = {.source = source, .quotes = true}, .table = table};
  gconv_status status = read_lines(&c, source);
  if (status == GCONV_OK && c.unknown > 0)
    gconv_warn("%s: %zu word%s not known to the model, so that all columns of the field are 0: %s", table->path, c.unknown,
               c.unknown == 1 ? " is" : "s are", c.unknown_text);
  gconv_csv_free_header(&c);
  free(c.order);
  free(c.comment);
  gconv_lines_free(&c.lines);
  free(c.fields);
  return status;
}

const gconv_table_syntax gconv_table_syntax_csv = {
    .name = "csv",
    .help = "fields with commas, semicolons, tabs or blanks between",
    .extensions = "csv tsv txt",
    .read = read_csv,
};
