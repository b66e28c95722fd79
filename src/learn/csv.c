/* SPDX-License-Identifier: MIT */
/* CSV: fields with commas, semicolons, tabs or blanks between, quoted as RFC 4180 has it, with a header or without. */
#include "base/memory.h"
#include "learn/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct field {
  char *begin, *end; /* in the line; *end is no part of a number */
} field;

typedef struct csv {
  gconv_lines lines;
  gconv_table *table;
  char separator;
  field *fields; /* of the line */
  size_t count, room;
  size_t width;        /* fields of a row; 0 before the first line */
  uint64_t first_line; /* which had so many */
  size_t label;        /* the column of labels; SIZE_MAX: none */
  char **header;       /* names of all fields, or NULL */
  size_t *order;       /* owned: the field of each column of a model, by name; NULL: as they stand */
} csv;

/* ---- Fields -------------------------------------------------------------------------------------------------------- */

static gconv_status add_field(csv *c, char *begin, char *end) {
  if (c->count == c->room) {
    size_t room = c->room ? 2 * c->room : 64;
    field *fields = realloc(c->fields, room * sizeof *fields);
    if (!fields)
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a line of %zu fields", c->table->path, c->count);
    c->fields = fields;
    c->room = room;
  }
  c->fields[c->count++] = (field){begin, end};
  return gconv_table_check_columns(c->table, c->count);
}

/* Takes the quotes off a field that begins with one, in its place. Returns what follows it. */
static char *unquote(char *at, char **end) {
  char *to = at;
  while (*at && !(at[0] == '"' && at[1] != '"')) {
    at += at[0] == '"';
    *to++ = *at++;
  }
  *end = to;
  return at + (*at == '"');
}

static bool is_blank(char letter) {
  return letter == ' ' || letter == '\t';
}

static gconv_status split(csv *c) {
  const char separator = c->separator;
  char *at = c->lines.text;
  c->count = 0;
  for (;;) {
    while (is_blank(*at) && *at != (separator == '\t' ? separator : '\0'))
      at++;
    if (separator == ' ' && !*at && c->count > 0) /* blanks at the end of the line */
      return GCONV_OK;
    char *begin = at, *end;
    if (*at == '"') {
      begin = at + 1;
      at = unquote(begin, &end);
      while (*at != separator && is_blank(*at))
        at++;
      if (*at && *at != separator)
        return gconv_lines_fail(&c->lines, "field %zu goes on behind the quote (\") that ends it; quotes within are doubled",
                                c->count + 1);
    } else {
      at += separator == ' ' ? strcspn(at, " \t") : strcspn(at, (char[]){separator, '\0'});
      end = at;
    }
    bool more = *at != '\0';
    GCONV_TRY(add_field(c, begin, end));
    if (!more)
      return GCONV_OK;
    at++;
  }
}

/* Counts a separator outside of quotes in the line at `at`; *end is where the line ends. */
static size_t count_separator(const char *at, const char *stop, char separator, const char **end) {
  bool quoted = false;
  size_t count = 0;
  for (; at < stop && (quoted || (*at != '\n' && *at != '\r')); at++) {
    quoted ^= *at == '"';
    count += !quoted && *at == separator && !(separator == ' ' && at > *end && at[-1] == ' ');
  }
  *end = at;
  return count;
}

/* How often the separator is in the first line, if other lines that are shown have it as often; else 0. */
static size_t try_separator(const char *text, size_t size, char separator) {
  enum { LINES = 10 };
  const char *at = text, *stop = text + size;
  size_t first = 0;
  for (int line = 0; line < LINES && at < stop;) {
    const char *end = at;
    size_t count = count_separator(at, stop, separator, &end);
    bool whole = end < stop || size < 4096;
    if (whole && end > at && *at != '#') {
      if (line++ > 0 && count != first)
        return 0;
      first = count;
    }
    at = end + (end < stop);
  }
  return first;
}

/* The separator that the first lines have most often, and all as often. Semicolons go first: commas between them may be
 * points of numbers. */
static gconv_status choose_separator(csv *c, gconv_source *source) {
  static const char candidates[] = {';', ',', '\t', ' '};
  const uint8_t *bytes;
  size_t got, most = 0;
  c->separator = c->table->options->separator;
  if (c->separator)
    return GCONV_OK;
  c->separator = ',';
  GCONV_TRY(gconv_source_peek(source, 4096, &bytes, &got));
  for (size_t i = 0; i < sizeof candidates; i++) {
    size_t count = try_separator((const char *)bytes, got, candidates[i]);
    bool behind = most > 0 && (c->separator == ';' || candidates[i] == ' ');
    if (count > most && !behind) {
      most = count;
      c->separator = candidates[i];
    }
  }
  for (size_t i = 0; most == 0 && i < sizeof candidates - 1; i++) /* lines differ, as their error will say */
    if (got > 0 && memchr(bytes, candidates[i], got)) {
      c->separator = candidates[i];
      break;
    }
  return GCONV_OK;
}

/* ---- Header and label ---------------------------------------------------------------------------------------------- */

/* In files with semicolons, a number may have a comma for its point. */
static gconv_field read_number(const csv *c, const field *f, double *value) {
  if (c->separator == ';') {
    char *comma = memchr(f->begin, ',', (size_t)(f->end - f->begin));
    if (comma && !memchr(f->begin, '.', (size_t)(f->end - f->begin))) {
      *comma = '.';
      gconv_field kind = gconv_field_read(f->begin, f->end, value);
      *comma = ',';
      return kind;
    }
  }
  return gconv_field_read(f->begin, f->end, value);
}

/* Whether the first line names the columns: no field is a number, or one is that of the column of labels. */
static bool is_header(const csv *c) {
  const gconv_dataset_options *options = c->table->options;
  const char *label = options->label ? options->label : options->usual_label;
  bool numbers = false, texts = false;
  for (size_t i = 0; i < c->count; i++) {
    const field *f = &c->fields[i];
    size_t length = (size_t)(f->end - f->begin);
    double value;
    bool number = read_number(c, f, &value) != GCONV_FIELD_TEXT;
    numbers |= number;
    texts |= !number && !gconv_field_is_missing(f->begin, f->end);
    if (label && !number && strlen(label) == length && strncasecmp(label, f->begin, length) == 0)
      return true;
  }
  return texts && !numbers && !(c->table->of_targets && c->count == 1);
}

/* Whether the fields that are numbers are 0, 1, 2 ... or 1, 2, 3 ..., as other programs call columns, beside a name. */
static bool counts_columns(const csv *c) {
  enum { FEWEST = 3 };
  size_t numbers = 0;
  double before = -1, value;
  for (size_t i = 0; i < c->count; i++) {
    if (gconv_field_read(c->fields[i].begin, c->fields[i].end, &value) != GCONV_FIELD_NUMBER)
      continue;
    if (numbers++ > 0 ? value != before + 1 : value != 0 && value != 1)
      return false;
    before = value;
  }
  return numbers >= FEWEST && numbers < c->count;
}

static void free_header(csv *c) {
  for (size_t i = 0; c->header && i < c->width; i++)
    free(c->header[i]);
  free(c->header);
  c->header = NULL;
}

static gconv_status keep_header(csv *c) {
  c->header = calloc(c->count, sizeof *c->header);
  bool good = c->header != NULL;
  for (size_t i = 0; i < c->count && good; i++) {
    field f = c->fields[i];
    while (f.end > f.begin && is_blank(f.end[-1]))
      f.end--;
    good = (c->header[i] = strndup(f.begin, (size_t)(f.end - f.begin))) != NULL;
  }
  return good ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its header", c->table->path);
}

/* Lists the first columns of the header. */
static void list_columns(const csv *c, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < c->width && used + 64 < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%.40s", i ? ", " : "", c->header[i]);
}

/* Whether there is a column of the name that labels usually have, which then is theirs. */
static bool find_usual_label(csv *c) {
  const gconv_table *table = c->table;
  const char *label = table->options->usual_label;
  bool found = false;
  if (!label || !c->header || table->options->label || table->options->targets || table->of_targets)
    return false;
  for (size_t i = 0; i < c->width && !found; i++) {
    found = strcmp(label, c->header[i]) == 0;
    c->label = found ? i : c->label;
  }
  return found;
}

static gconv_status find_label(csv *c) {
  const gconv_table *table = c->table;
  const char *label = table->options->label;
  char list[400];
  c->label = table->of_targets ? 0 : c->width - 1;
  if (!label || table->of_targets)
    return GCONV_OK;
  for (int exact = 1; c->header && exact >= 0; exact--)
    for (size_t i = 0; i < c->width; i++)
      if ((exact ? strcmp : strcasecmp)(label, c->header[i]) == 0) {
        c->label = i;
        return GCONV_OK;
      }
  char *end;
  unsigned long number = strtoul(label, &end, 10);
  if (label[0] >= '0' && label[0] <= '9' && !*end && number >= 1 && number <= c->width) {
    c->label = number - 1;
    return GCONV_OK;
  }
  if (!c->header)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s: there is no column '%s': the file has no header, so --label takes the number of the column, 1 to %zu",
        table->path, label, c->width);
  list_columns(c, list, sizeof list);
  return gconv_fail(GCONV_BAD_ARGUMENT, "%s: there is no column '%s'; there are %s", table->path, label, list);
}

/* Keeps the names of the columns, which a file of targets has not. */
static gconv_status name_columns(csv *c) {
  gconv_table *table = c->table;
  if (!c->header || table->of_targets)
    return GCONV_OK;
  if (table->options->like && table->options->like->names)
    GCONV_TRY(gconv_table_match(table, &(gconv_names){c->header, c->width}, &c->label, &c->order));
  table->names = calloc(c->width + 1, sizeof *table->names);
  if (!table->names)
    return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its header", table->path);
  const size_t inputs = c->order ? table->options->like->count : c->width - (c->label < c->width);
  for (size_t j = 0, i = 0; j < inputs; j++, i++) {
    i += i == c->label;
    if (!(table->names[j] = strdup(c->header[c->order ? c->order[j] : i])))
      return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its header", table->path);
    table->name_count++;
  }
  table->label = c->label < c->width ? strdup(c->header[c->label]) : NULL;
  return table->label || c->label >= c->width ? GCONV_OK
                                              : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for its header", table->path);
}

/* Looks at the first line, and settles what holds for all. */
static gconv_status begin(csv *c, bool *header) {
  gconv_table *table = c->table;
  c->width = c->count;
  c->first_line = c->lines.line;
  *header = is_header(c);
  if (!*header && counts_columns(c)) {
    gconv_warn("%s: its first line, which counts the columns, is taken for a header", table->path);
    *header = true;
  }
  if (*header)
    GCONV_TRY(keep_header(c));
  if (!find_usual_label(c)) {
    if (gconv_table_is_inputs(table) || (table->of_targets && c->width > 1)) {
      c->label = SIZE_MAX;
      table->unlabelled = true;
    } else {
      GCONV_TRY(find_label(c));
    }
  }
  table->labelled = !table->unlabelled && !table->options->regression;
  return name_columns(c);
}

/* ---- Rows ---------------------------------------------------------------------------------------------------------- */

/* "column 3 (height)" */
static const char *name_column(const csv *c, size_t index, char text[100]) {
  if (c->header && c->header[index][0])
    snprintf(text, 100, "column %zu (%.60s)", index + 1, c->header[index]);
  else
    snprintf(text, 100, "column %zu", index + 1);
  return text;
}

/* What --label would take for the column. */
static const char *address_column(const csv *c, size_t index, char text[100]) {
  if (c->header && c->header[index][0])
    snprintf(text, 100, "%.80s", c->header[index]);
  else
    snprintf(text, 100, "%zu", index + 1);
  return text;
}

static gconv_status complain_number(const csv *c, size_t index, gconv_field kind) {
  const field *f = &c->fields[index];
  int shown = (int)(f->end - f->begin < 40 ? f->end - f->begin : 40);
  char name[100], address[100], label[100];
  name_column(c, index, name);
  if (kind == GCONV_FIELD_NOT_FINITE)
    return gconv_lines_fail(&c->lines, "%s is %.*s: numbers must be finite, and fit into float32", name, shown, f->begin);
  if (index == c->label)
    return gconv_lines_fail(&c->lines, "%s, of the targets, is \"%.*s\", which is no number", name, shown, f->begin);
  if (c->label == SIZE_MAX)
    return gconv_lines_fail(&c->lines, "%s is \"%.*s\", which is no number", name, shown, f->begin);
  return gconv_lines_fail(&c->lines,
                          "%s is \"%.*s\", which is no number: if it is the column of labels, say --label %s (now it is %s)",
                          name, shown, f->begin, address_column(c, index, address), name_column(c, c->label, label));
}

static gconv_status read_label(csv *c, size_t *number) {
  const field *f = &c->fields[c->label];
  gconv_table *table = c->table;
  const char *wrong = NULL;
  char name[100];
  double value;
  if (table->unlabelled)
    return GCONV_OK;
  if (gconv_field_is_missing(f->begin, f->end)) {
    if (table->missing != GCONV_MISSING_DROP)
      return gconv_lines_fail(&c->lines, "%s, of the labels, is missing: --missing drop leaves such lines out",
                              name_column(c, c->label, name));
    table->missing_numbers++;
    return table->labelled ? GCONV_OK : gconv_row_add(&table->target, (double)NAN);
  }
  if (!table->labelled) {
    gconv_field kind = read_number(c, f, &value);
    return kind == GCONV_FIELD_NUMBER ? gconv_row_add(&table->target, value) : complain_number(c, c->label, kind);
  }
  GCONV_TRY(gconv_labels_find(&table->labels, f->begin, f->end, number, &wrong));
  int shown = (int)(f->end - f->begin < 40 ? f->end - f->begin : 40);
  return wrong ? gconv_lines_fail(&c->lines, "the label \"%.*s\" %s", shown, f->begin, wrong) : GCONV_OK;
}

static gconv_status read_input(csv *c, size_t index) {
  const field *f = &c->fields[index];
  gconv_table *table = c->table;
  char name[100];
  double value;
  gconv_field kind = read_number(c, f, &value);
  if (kind == GCONV_FIELD_NUMBER)
    return gconv_row_add(&table->row, value);
  if (!gconv_field_is_missing(f->begin, f->end))
    return complain_number(c, index, kind);
  if (table->missing == GCONV_MISSING_ERROR)
    return gconv_lines_fail(&c->lines,
                            "%s is missing: --missing mean puts in the mean of the column, --missing drop leaves such lines "
                            "out",
                            name_column(c, index, name));
  table->missing_numbers++;
  return gconv_row_add(&table->row, (double)NAN);
}

static gconv_status read_row(csv *c) {
  size_t label = 0;
  if (c->count != c->width)
    return gconv_lines_fail(&c->lines, "has %zu field%s, where line %llu has %zu", c->count, c->count == 1 ? "" : "s",
                            (unsigned long long)c->first_line, c->width);
  for (size_t i = 0; i < c->count; i++)
    if (i == c->label)
      GCONV_TRY(read_label(c, &label));
    else if (!c->order)
      GCONV_TRY(read_input(c, i));
  for (size_t j = 0; c->order && j < c->table->options->like->count; j++)
    GCONV_TRY(read_input(c, c->order[j]));
  return gconv_table_end_row(c->table, label);
}

static gconv_status read_lines(csv *c, gconv_source *source) {
  bool found, header = false;
  GCONV_TRY(choose_separator(c, source));
  for (;;) {
    GCONV_TRY(gconv_lines_next_filled(&c->lines, &found));
    if (!found)
      return GCONV_OK;
    if (c->width == 0 && c->lines.text[0] == '#') /* a comment above the table */
      continue;
    GCONV_TRY(split(c));
    bool first = c->width == 0;
    if (first)
      GCONV_TRY(begin(c, &header));
    if (!first || !header)
      GCONV_TRY(read_row(c));
  }
}

static gconv_status read_csv(gconv_source *source, gconv_table *table) {
  csv c = {.lines = {.source = source, .quotes = true}, .table = table};
  gconv_status status = read_lines(&c, source);
  free_header(&c);
  free(c.order);
  gconv_lines_free(&c.lines);
  free(c.fields);
  return status;
}

const gconv_table_syntax gconv_table_syntax_csv = {
    .name = "csv",
    .help = "fields with commas, semicolons, tabs or blanks between",
    .extensions = "csv tsv txt",
    .recognise = NULL,
    .read = read_csv,
};
