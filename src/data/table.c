/* SPDX-License-Identifier: MIT */
/* What all syntaxes of tables share: rows, labels, missing numbers, and finding the syntax of a file. */
#include "data/table.h"
#include "base/control.h"
#include "base/memory.h"
#include "data/field.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* ---- Rows ---------------------------------------------------------------------------------------------------------- */

gconv_status gconv_table_check_columns(const gconv_table *table, uint64_t columns) {
  if (columns <= GCONV_MOST_COLUMNS)
    return GCONV_OK;
  return gconv_fail(GCONV_TOO_LARGE, "%s: has %llu columns; a table may have %d", table->path, (unsigned long long)columns,
                    GCONV_MOST_COLUMNS);
}

bool gconv_table_is_inputs(const gconv_table *table) {
  return table->unlabelled && !table->of_targets && (!table->options->label || table->options->targets);
}

static gconv_status keep_targets(gconv_table *table) {
  for (size_t i = 0; i < table->target.count; i++) {
    float target = (float)table->target.items[i];
    GCONV_TRY(gconv_store_append(&table->targets, &target, sizeof target));
  }
  table->outputs = table->target.count;
  return GCONV_OK;
}

static gconv_status keep_inputs(gconv_table *table) {
  if (table->sparse) {
    GCONV_TRY(gconv_store_append(&table->inputs, table->entries, table->entry_count * sizeof *table->entries));
    const uint64_t end = table->inputs.size / sizeof *table->entries;
    return gconv_store_append(&table->ends, &end, sizeof end);
  }
  table->columns = table->row.count;
  return gconv_store_append(&table->inputs, table->row.items, table->row.count * sizeof *table->row.items);
}

static gconv_status note_row(gconv_table *table, size_t row) {
  GCONV_GROW(table->rows, table->cases, "%s: no memory for the numbers of %zu rows", table->path, table->cases);
  table->rows[table->cases] = row;
  return GCONV_OK;
}

static gconv_status keep_row(gconv_table *table, size_t label) {
  float class = (float)label;
  if (table->dropped > 0)
    GCONV_TRY(note_row(table, table->cases + table->dropped));
  GCONV_TRY(keep_inputs(table));
  if (table->labelled)
    GCONV_TRY(gconv_store_append(&table->targets, &class, sizeof class));
  table->cases++;
  return table->labelled ? GCONV_OK : keep_targets(table);
}

/* Leaves the row out. From then on, the numbers of cases and of rows differ. */
static gconv_status drop_row(gconv_table *table) {
  const size_t cases = table->cases;
  for (table->cases = 0; table->dropped == 0 && table->cases < cases; table->cases++)
    GCONV_TRY(note_row(table, table->cases));
  table->cases = cases;
  if (table->dropped < GCONV_TOLD_LINES)
    table->dropped_lines[table->dropped] = table->line > 0 ? table->line : cases + table->dropped + 1;
  table->dropped++;
  return GCONV_OK;
}

gconv_status gconv_table_end_row(gconv_table *table, size_t label) {
  enum { ROWS_A_CHECK = 1024 };
  if (table->cases % ROWS_A_CHECK == 0)
    GCONV_TRY(gconv_control_check());
  bool drop = table->missing_numbers > 0 && table->missing == GCONV_MISSING_DROP;
  gconv_status status = drop ? drop_row(table) : keep_row(table, label);
  table->row.count = table->target.count = table->entry_count = table->missing_numbers = 0;
  return status;
}

gconv_status gconv_table_count_gaps(gconv_table *table, const gconv_lines *lines) {
  size_t inputs = 0, targets = 0;
  for (size_t i = 0; i < table->row.count; i++)
    inputs += isnan(table->row.items[i]);
  for (size_t i = 0; i < table->target.count; i++)
    targets += isnan(table->target.items[i]);
  if (targets > 0 && table->missing != GCONV_MISSING_DROP)
    return gconv_lines_fail(lines, "a target is missing: --missing drop leaves such cases out");
  if (inputs > 0 && table->missing == GCONV_MISSING_ERROR)
    return gconv_lines_fail(lines,
                            "a number is missing: --missing mean puts in the mean of the column, --missing drop leaves "
                            "such cases out");
  table->missing_numbers = inputs + targets;
  table->line = lines->line;
  return GCONV_OK;
}

size_t gconv_table_entries(const gconv_table *table, size_t index, const gconv_entry **entries) {
  const uint64_t *ends = (const uint64_t *)(const void *)table->ends.bytes;
  const uint64_t first = index > 0 ? ends[index - 1] : 0;
  *entries = ends[index] > first ? (const gconv_entry *)(const void *)table->inputs.bytes + first : NULL;
  return (size_t)(ends[index] - first);
}

void gconv_table_get(const gconv_table *table, size_t index, float *numbers) {
  if (table->sparse) {
    const gconv_entry *entries;
    const size_t count = gconv_table_entries(table, index, &entries);
    for (size_t c = 0; c < table->columns; c++)
      numbers[c] = table->origins ? (float)-table->origins[c] : 0;
    for (size_t i = 0; i < count; i++)
      numbers[entries[i].column] = entries[i].value;
    return;
  }
  const uint8_t *from = table->inputs.bytes + index * table->columns * sizeof(float);
  if (table->columns > 0)
    memcpy(numbers, from, table->columns * sizeof(float));
}

/* ---- After the last row ------------------------------------------------------------------------------------------- */

/* Sorts classes whose names are numbers. */
static gconv_status renumber(gconv_table *table) {
  GCONV_FREED size_t *order = NULL;
  GCONV_TRY(gconv_labels_sort(&table->labels, &order));
  GCONV_ENDED_BY(gconv_store_free) gconv_store sorted = {.limit = table->targets.limit};
  const float *old = (const float *)(const void *)table->targets.bytes;
  if (!order)
    return GCONV_OK;
  for (size_t i = 0; i < table->cases; i++) {
    float number = (float)order[(size_t)old[i]];
    GCONV_TRY(gconv_store_append(&sorted, &number, sizeof number));
  }
  return gconv_store_replace(&table->targets, &sorted);
}

/* True if labels are integers, and nearly each case has its own: on average, fewer than three cases have the same label, or,
 * if there are few labels, fewer than 5/4. */
static bool are_rather_numbers(const gconv_table *table) {
  enum { LEAST = 10, FEW = 20 };
  const gconv_labels *labels = &table->labels;
  const size_t count = labels->count, cases = table->cases;
  return !labels->known && labels->all_numbers && !table->options->classification && count >= LEAST &&
         (count > FEW ? 3 * count > cases : 5 * count > 4 * cases);
}

/* Converts labels that are numbers to targets. */
static gconv_status make_numbers(gconv_table *table) {
  const float *old = (const float *)(const void *)table->targets.bytes;
  GCONV_ENDED_BY(gconv_store_free) gconv_store numbers = {.limit = table->targets.limit};
  gconv_warn(
      "%s: the labels of %zu cases are %zu whole numbers, and taken for numbers to be approximated, as by --regression: "
      "--classification takes them for classes",
      table->path, table->cases, table->labels.count);
  for (size_t i = 0; i < table->cases; i++) {
    const float number = (float)strtod(table->labels.names[(size_t)old[i]], NULL);
    GCONV_TRY(gconv_store_append(&numbers, &number, sizeof number));
  }
  GCONV_TRY(gconv_store_replace(&table->targets, &numbers));
  table->labelled = false;
  table->approximated = true;
  table->outputs = 1;
  gconv_labels_free(&table->labels);
  return GCONV_OK;
}

static gconv_status finish_labels(gconv_table *table) {
  const gconv_labels *labels = &table->labels;
  if (!labels->known && labels->all_numbers && labels->fractions)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: labels are numbers with fractions, such as %s: say --regression if these are targets to be "
                      "approximated, or name the column of classes with --label",
                      table->path, labels->fraction);
  const char *lost = labels->known ? NULL : gconv_labels_not_finite(labels);
  if (lost)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: a label is %s, and all others are numbers: where the class is not known, leave the field empty, "
                      "and --missing drop leaves such lines out",
                      table->path, lost);
  for (size_t i = 0; i < labels->count && !labels->known; i++)
    if (gconv_field_may_be_name(labels->names[i], labels->names[i] + strlen(labels->names[i])))
      gconv_warn("%s: \"%s\" is taken for the name of a class: where the class is not known, leave the field empty",
                 table->path, labels->names[i]);
  if (are_rather_numbers(table))
    return make_numbers(table);
  if (!labels->known && labels->all_numbers && !table->options->classification && labels->count == table->cases &&
      table->cases > 4)
    gconv_warn("%s: each of its %zu cases has a class of its own: name the column of classes with --label, or say "
               "--regression if these are numbers to be approximated",
               table->path, table->cases);
  if (!labels->known && labels->count < 2)
    return gconv_fail(GCONV_BAD_FILE, "%s: all cases have the label \"%s\": there must be two classes at least", table->path,
                      labels->names[0]);
  return renumber(table);
}

/* True if each case has one target of 1, and 0 in all others: such targets are classes. */
static bool are_classes(const gconv_table *table) {
  const float *targets = (const float *)(const void *)table->targets.bytes;
  if (table->options->regression || table->outputs < 2 || table->target_shape[0])
    return false;
  for (size_t i = 0; i < table->cases; i++) {
    size_t ones = 0, zeroes = 0;
    for (size_t k = 0; k < table->outputs; k++) {
      ones += targets[i * table->outputs + k] == 1;
      zeroes += targets[i * table->outputs + k] == 0;
    }
    if (ones != 1 || ones + zeroes != table->outputs)
      return false;
  }
  return true;
}

/* Converts targets of one 1 and zeros to labels: the number of the column with the 1, from 1 on. */
static gconv_status make_labels(gconv_table *table) {
  const float *targets = (const float *)(const void *)table->targets.bytes;
  size_t outputs = table->outputs, number;
  const char *wrong = NULL;
  if (outputs > GCONV_MOST_CLASSES)
    return GCONV_OK;
  if (table->labels.known && table->labels.count != outputs)
    return gconv_fail(GCONV_BAD_FILE, "%s: has %zu classes, and the network %zu", table->path, outputs, table->labels.count);
  for (size_t k = 0; k < outputs && !table->labels.known; k++) {
    char name[24];
    int length = snprintf(name, sizeof name, "%zu", k + 1);
    GCONV_TRY(gconv_labels_find(&table->labels, name, name + length, &number, &wrong));
  }
  GCONV_ENDED_BY(gconv_store_free) gconv_store classes = {.limit = table->targets.limit};
  for (size_t i = 0; i < table->cases; i++) {
    size_t k = 0;
    while (targets[i * outputs + k] != 1)
      k++;
    float class = (float)k;
    GCONV_TRY(gconv_store_append(&classes, &class, sizeof class));
  }
  GCONV_TRY(gconv_store_replace(&table->targets, &classes));
  table->labelled = true;
  table->outputs = 0;
  return GCONV_OK;
}

/* Converts single targets, such as -1 and 1, to labels if the caller asks for classes. */
static gconv_status name_targets(gconv_table *table) {
  const float *targets = (const float *)(const void *)table->targets.bytes;
  GCONV_ENDED_BY(gconv_store_free) gconv_store classes = {.limit = table->targets.limit};
  for (size_t i = 0; i < table->cases; i++) {
    char name[32];
    const char *wrong = NULL;
    size_t number = 0;
    const int length = snprintf(name, sizeof name, "%.9g", (double)targets[i]);
    GCONV_TRY(gconv_labels_find(&table->labels, name, name + length, &number, &wrong));
    if (wrong)
      return gconv_fail(GCONV_BAD_FILE, "%s: case %zu: the label %s %s", table->path, i + 1, name, wrong);
    const float class = (float)number;
    GCONV_TRY(gconv_store_append(&classes, &class, sizeof class));
  }
  GCONV_TRY(gconv_store_replace(&table->targets, &classes));
  table->labelled = true;
  table->outputs = 0;
  return finish_labels(table);
}

/* True if the first of several targets counts the cases: 0, 1, 2 ... or 1, 2, 3 ... */
static bool first_counts(const gconv_table *table) {
  const float *row = (const float *)(const void *)table->inputs.bytes;
  bool counts = table->columns > 1 && table->cases > 2 && (row[0] == 0 || row[0] == 1);
  for (size_t i = 1; i < table->cases && counts; i++)
    counts = row[i * table->columns] == row[0] + (float)i;
  return counts;
}

/* Moves inputs to targets: a table of targets alone is read as if these were inputs. */
static void move_targets(gconv_table *table) {
  if (first_counts(table))
    gconv_warn("%s: column 1 counts the rows, and is learned as a target: name the column of labels, or leave it out",
               table->path);
  gconv_store_free(&table->targets);
  table->targets = table->inputs;
  table->inputs = (gconv_store){0};
  table->outputs = table->columns;
  table->columns = 0;
  table->unlabelled = false;
}

/* Reports the rows that were left out. */
static void tell_dropped(const gconv_table *table) {
  char list[GCONV_TOLD_LINES * 24] = "";
  size_t used = 0;
  const size_t count = table->dropped;
  for (size_t i = 0; i < count && i < GCONV_TOLD_LINES; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%llu", i > 0 ? ", " : "",
                             (unsigned long long)table->dropped_lines[i]);
  if (count > 0)
    gconv_warn("%s: %zu %s%s left out, as numbers or labels are missing: %s%s", table->path, count,
               table->line > 0 ? "line" : "row", count == 1 ? " was" : "s were", list,
               count > GCONV_TOLD_LINES ? " ..." : "");
}

gconv_status gconv_table_finish(gconv_table *table) {
  GCONV_TRY(gconv_store_finish(&table->inputs));
  GCONV_TRY(gconv_store_finish(&table->targets));
  GCONV_TRY(gconv_table_resolve_doubt(table));
  GCONV_TRY(gconv_table_spread_words(table));
  GCONV_TRY(gconv_table_round(table));
  if (table->of_targets && table->unlabelled)
    move_targets(table);
  if (table->cases == 0 && table->dropped > 0)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: every line lacks a number, so that --missing drop leaves none: try --missing mean", table->path);
  if (table->cases == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: has no cases", table->path);
  if (table->columns == 0 && !table->of_targets)
    return gconv_fail(GCONV_BAD_FILE,
                      "%s: has a column of labels alone, and no inputs beside it: name what separates its fields with "
                      "--separator, if it is none of comma, semicolon, tab and blank",
                      table->path);
  GCONV_TRY(gconv_store_finish(&table->ends));
  if (table->channels == 0) {
    table->channels = (int32_t)table->columns;
    table->height = table->width = 1;
  }
  tell_dropped(table);
  if (table->labelled)
    return finish_labels(table);
  if (table->unlabelled || table->options->regression)
    return GCONV_OK;
  if (table->outputs == 1 && (table->options->classification || table->labels.known))
    return name_targets(table);
  return are_classes(table) ? make_labels(table) : GCONV_OK;
}

uint64_t gconv_table_digest(const gconv_table *table, uint64_t hash) {
  hash = gconv_store_digest(&table->inputs, hash);
  hash = gconv_store_digest(&table->ends, hash);
  hash = gconv_store_digest(&table->targets, hash);
  return gconv_labels_digest(&table->labels, hash);
}

/* ---- Syntaxes ------------------------------------------------------------------------------------------------------ */

static const gconv_table_syntax *by_name(const char *name) {
  const gconv_table_syntax *syntax;
  for (size_t i = 0; (syntax = gconv_table_syntax_at(i)); i++)
    if (strcmp(syntax->name, name) == 0)
      return syntax;
  return NULL;
}

static gconv_status choose(gconv_source *source, const char *name, const gconv_table_syntax **found) {
  const uint8_t *bytes;
  size_t got;
  *found = name ? by_name(name) : NULL;
  if (name && !*found)
    return gconv_fail(GCONV_BAD_ARGUMENT,
                      "there is no syntax of tables called '%s'; known are csv, libsvm, fann, letters and npy", name);
  GCONV_TRY(gconv_source_peek(source, 4096, &bytes, &got));
  if (got >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) { /* the mark of UTF-8 */
    bytes += 3;
    got -= 3;
  }
  if (got == 0)
    return gconv_fail(GCONV_BAD_FILE, "%s: the file is empty", source->name);
  if (!name)
    GCONV_TRY(gconv_table_refuse_others(source, bytes, got));
  for (size_t i = 0; !*found; i++) {
    const gconv_table_syntax *syntax = gconv_table_syntax_at(i);
    if (!syntax->recognise || syntax->recognise(bytes, got))
      *found = syntax;
  }
  return GCONV_OK;
}

static gconv_status set_missing(const gconv_table *table, gconv_missing *missing) {
  const char *word = table->options->missing;
  if (word && strcmp(word, "mean") != 0 && strcmp(word, "drop") != 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "missing is '%s': there are mean and drop", word);
  const bool drop = word && word[0] == 'd' && !(table->of_targets && table->options->window > 0);
  *missing = drop ? GCONV_MISSING_DROP : word && !table->of_targets ? GCONV_MISSING_MEAN : GCONV_MISSING_ERROR;
  return GCONV_OK;
}

gconv_status gconv_table_begin(gconv_table *table, const char *path) {
  const gconv_dataset_options *options = table->options;
  table->path = path;
  GCONV_TRY(set_missing(table, &table->missing));
  if (!table->unlabelled && options->class_count > 0 && !options->regression)
    GCONV_TRY(gconv_labels_begin(&table->labels, options->classes, options->class_count));
  table->labels.takes_others = options->others;
  return GCONV_OK;
}

gconv_status gconv_table_read_source(gconv_source *source, const char *syntax, gconv_table *table) {
  const gconv_table_syntax *found;
  GCONV_TRY(gconv_table_begin(table, source->name));
  GCONV_TRY(choose(source, syntax, &found));
  if (table->options->one_hot && !table->options->like && !table->of_targets && strcmp(found->name, "csv") != 0)
    return gconv_fail(
        GCONV_BAD_ARGUMENT,
        "%s: --one-hot is for words in CSV tables, and this table is %s: leave it out, or name the syntax csv if "
        "it has fields of words",
        source->name, found->name);
  GCONV_TRY(found->read(source, table));
  return gconv_table_finish(table);
}

gconv_status gconv_table_read_archive(gconv_source *archive, gconv_table *table) {
  GCONV_ENDED_BY(gconv_zip_free) gconv_zip zip = {0};
  GCONV_ENDED_BY(gconv_source_close) gconv_source member = {0};
  GCONV_TRY(gconv_npz_open(archive, &zip, &member));
  return gconv_table_read_source(&member, "npy", table);
}

gconv_status gconv_table_read(const char *path, const char *syntax, gconv_table *table) {
  GCONV_ENDED_BY(gconv_source_close) gconv_source source = {.file = -1};
  const uint8_t *bytes;
  size_t got = 0;
  const bool named = path[gconv_member_split(path)] == ':'; /* only an archive has members */
  table->path = path;
  GCONV_TRY(named ? gconv_source_open_member(path, &source) : gconv_source_open_unzipped(path, &source));
  GCONV_TRY(gconv_source_peek(&source, 4, &bytes, &got));
  const bool archive = gconv_zip_sniff(bytes, got);
  if (named && !archive)
    return gconv_fail(GCONV_BAD_ARGUMENT, "%s: the file is no archive: leave out the ':%s'", path, source.member);
  gconv_status status = archive ? gconv_table_read_archive(&source, table) : gconv_table_read_source(&source, syntax, table);
  table->path = path; /* not source.name, which ends with the source */
  return status;
}

void gconv_table_free(gconv_table *table) {
  gconv_store_free(&table->inputs);
  gconv_store_free(&table->ends);
  gconv_store_free(&table->targets);
  gconv_labels_free(&table->labels);
  gconv_table_free_names(table);
  gconv_table_free_words(table);
  free(table->rows);
  free(table->entries);
  free(table->origins);
  free(table->spreads);
  free(table->row.items);
  free(table->target.items);
  *table = (gconv_table){0};
}

/* ---- Recognising --------------------------------------------------------------------------------------------------- */

size_t gconv_first_numbers(const uint8_t *bytes, size_t size, size_t index, double *numbers, size_t most) {
  static const char between[] = " \t,;";
  const char *at = (const char *)bytes, *end = at + size;
  for (; index > 0 && at < end; index--) {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    at = line ? line + 1 : end;
  }
  const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
  if (!stop && size < 4096) /* the file ends there */
    stop = end;
  if (!stop || at == end || memchr(at, 0, (size_t)(stop - at)))
    return SIZE_MAX;
  size_t count = 0;
  while (at < stop) {
    const char *field = at;
    while (at < stop && !strchr(between, *at) && *at != '\r')
      at++;
    double value = (double)NAN;
    char copy[64] = "";
    if (at > field && (size_t)(at - field) >= sizeof copy)
      return SIZE_MAX;
    if (at > field) {
      memcpy(copy, field, (size_t)(at - field));
      gconv_field kind = gconv_field_read(copy, copy + (at - field), &value);
      if (kind != GCONV_FIELD_NUMBER && kind != GCONV_FIELD_GAP)
        return SIZE_MAX;
      if (count < most)
        numbers[count] = value;
      count++;
    }
    at += at < stop;
  }
  return count;
}
