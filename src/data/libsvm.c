/* SPDX-License-Identifier: MIT */
/* LIBSVM's data: a line for each case, "label index:value index:value ...". Indices ascend. They count from 1, or from 0 if
 * any is 0. Absent values are 0. Rows are kept sparse: a file of few bytes may have millions of columns. */
#include "base/memory.h"
#include "data/field.h"
#include "data/table.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const char blank[] = " \t";

/* True if a word is "digits:..." or "qid:..." */
static bool is_entry(const char *word, size_t length) {
  const size_t digits = strspn(word, "0123456789");
  return (digits > 0 && length > digits && word[digits] == ':') || (length > 4 && strncmp(word, "qid:", 4) == 0);
}

/* True if an entry may be of LIBSVM: "12:30:00,1.5" is a time and a number of CSV. */
static bool may_be_libsvm(const char *word, size_t length) {
  if (!is_entry(word, length))
    return false;
  const size_t value = strcspn(word, ":") + 1;
  return value + strcspn(word + value, ",;:") >= length;
}

/* True if a word is a label, or several with commas between. */
static bool are_labels(const char *word, size_t length) {
  double value;
  for (size_t at = 0, part; at <= length; at += part + 1) {
    part = strcspn(word + at, ", \t");
    if (gconv_field_read(word + at, word + at + part, &value) == GCONV_FIELD_TEXT)
      return false;
  }
  return true;
}

/* True if most of the words are entries, or there are none: "12:30 1.5 yes" is a time and other columns. */
static bool are_entries(const char *word) {
  int entries = 0, others = 0;
  for (size_t length; *word; word += length + strspn(word + length, blank)) {
    length = strcspn(word, blank);
    *(is_entry(word, length) ? &entries : &others) += 1;
  }
  return entries > others || others == 0;
}

/* True if the first line begins with a label and an entry, or with an entry, and most of what follows are entries. Comments,
 * and lines with a label alone, are skipped. */
static bool recognise(const uint8_t *bytes, size_t size) {
  const char *at = (const char *)bytes, *end = at + size;
  while (at < end) {
    char line[256] = "";
    size_t length = 0;
    for (; at < end && *at != '\n' && *at != '\r'; at++)
      if (length + 1 < sizeof line && *at != '\0')
        line[length++] = *at;
    at += at < end;
    line[strcspn(line, "#")] = '\0';
    const char *word = line + strspn(line, blank);
    length = strcspn(word, blank);
    const char *next = word + length + strspn(word + length, blank);
    if (*next || is_entry(word, length))
      return are_entries(next) &&
             (may_be_libsvm(word, length) || (may_be_libsvm(next, strcspn(next, blank)) && are_labels(word, length)));
  }
  return false;
}

typedef struct reading {
  gconv_lines lines;
  gconv_table *table;
  uint64_t most; /* the largest index */
  bool from_zero, told_by_model, queries;
} reading;

static gconv_status read_label(gconv_lines *lines, gconv_table *table, char *word, size_t length, size_t *label) {
  const char *wrong = NULL;
  double value;
  if (table->unlabelled)
    return GCONV_OK;
  if (memchr(word, ':', length))
    return gconv_lines_fail(lines, "begins with \"%.*s\", where a label is expected", (int)(length < 40 ? length : 40),
                            word);
  if (memchr(word, ',', length))
    return gconv_lines_fail(lines, "has several labels, \"%.*s\": gconv takes one a case", (int)(length < 40 ? length : 40),
                            word);
  if (gconv_field_read(word, word + length, &value) == GCONV_FIELD_GAP) {
    if (table->missing != GCONV_MISSING_DROP)
      return gconv_lines_fail(lines, "the label is missing: --missing drop leaves such lines out");
    table->missing_numbers++;
    return table->labelled ? GCONV_OK : gconv_row_add(&table->target, (double)NAN);
  }
  if (table->options->regression) {
    if (gconv_field_read(word, word + length, &value) != GCONV_FIELD_NUMBER)
      return gconv_lines_fail(lines, "the target is \"%.*s\", which is no number", (int)(length < 40 ? length : 40), word);
    return gconv_row_add(&table->target, value);
  }
  GCONV_TRY(gconv_labels_find(&table->labels, word, word + length, label, &wrong));
  return wrong ? gconv_lines_fail(lines, "the label \"%.*s\" %s", (int)(length < 40 ? length : 40), word, wrong) : GCONV_OK;
}

static gconv_status add_entry(gconv_table *table, gconv_entry entry) {
  GCONV_GROW(table->entries, table->entry_count, "%s: no memory for a row of %zu entries", table->path, table->entry_count);
  table->entries[table->entry_count++] = entry;
  return GCONV_OK;
}

/* Handles a missing number. Its row can be left out. The mean of the column cannot replace it, since absent values are 0. */
static gconv_status miss(gconv_lines *lines, gconv_table *table, int shown, const char *word) {
  if (table->missing != GCONV_MISSING_DROP)
    return gconv_lines_fail(
        lines, "\"%.*s\" is missing: --missing drop leaves such lines out; for means, write the table as CSV", shown, word);
  table->missing_numbers++;
  return GCONV_OK;
}

/* Reads "index:value". *next: the least index that is allowed. */
static gconv_status read_entry(reading *r, const char *word, size_t length, uint64_t *next) {
  gconv_lines *lines = &r->lines;
  gconv_table *table = r->table;
  int shown = (int)(length < 40 ? length : 40);
  const char *colon = memchr(word, ':', length);
  uint64_t index = 0;
  double value;
  const char *at = word;
  for (; colon && at < colon && isdigit((unsigned char)*at); at++)
    index = index < UINT64_MAX / 10 ? 10 * index + (uint64_t)(*at - '0') : UINT64_MAX;
  if (!colon || at < colon || at == word)
    return gconv_lines_fail(lines, "\"%.*s\" is not INDEX:VALUE", shown, word);
  if (index < *next)
    return gconv_lines_fail(lines, "index %llu follows %llu: indices must ascend", (unsigned long long)index,
                            (unsigned long long)*next - 1);
  GCONV_TRY(gconv_table_check_columns(table, index));
  gconv_field kind = gconv_field_read(colon + 1, word + length, &value);
  if (kind == GCONV_FIELD_NOT_FINITE)
    return gconv_lines_fail(lines, "\"%.*s\": numbers must be finite, and fit into float32", shown, word);
  if (kind == GCONV_FIELD_TEXT || (kind == GCONV_FIELD_GAP && colon + 1 == word + length))
    return gconv_lines_fail(lines, "\"%.*s\": there is no number after the colon", shown, word);
  r->from_zero |= index == 0;
  r->most = index > r->most ? index : r->most;
  *next = index + 1;
  if (kind == GCONV_FIELD_GAP)
    return miss(lines, table, shown, word);
  GCONV_TRY(gconv_table_see(table, (size_t)index, value));
  const double origin = table->origins && index > 0 && index <= table->options->like->count ? table->origins[index - 1] : 0;
  return add_entry(table, (gconv_entry){(uint32_t)index - 1, (float)(value - origin)}); /* index 0: UINT32_MAX */
}

/* scikit-learn may say in a comment whether indices count from 0 or 1. */
static void read_comment(reading *r, const char *comment) {
  r->from_zero |= strstr(comment, "Column indices are zero-based") != NULL;
}

static gconv_status read_line(reading *r) {
  gconv_lines *lines = &r->lines;
  gconv_table *table = r->table;
  char *comment = strchr(lines->text, '#');
  size_t label = 0;
  uint64_t next = 0;
  if (comment) {
    read_comment(r, comment);
    *comment = '\0';
  }
  char *at = lines->text + strspn(lines->text, blank);
  size_t length = strcspn(at, blank);
  if (length == 0)
    return GCONV_OK;
  if (table->unlabelled && is_entry(at, length)) /* a line without a label */
    length = 0;
  else
    GCONV_TRY(read_label(lines, table, at, length, &label));
  for (at += length, at += strspn(at, blank); *at; at += length, at += strspn(at, blank)) {
    length = strcspn(at, blank);
    if (strncmp(at, "qid:", 4) == 0)
      r->queries = true;
    else
      GCONV_TRY(read_entry(r, at, length, &next));
  }
  table->line = lines->line;
  return gconv_table_end_row(table, label);
}

/* Adds 1 to the columns of all entries, so that index 0 becomes column 0. */
static gconv_status shift_columns(gconv_table *table) {
  const size_t entries = (size_t)(table->inputs.size / sizeof(gconv_entry));
  GCONV_ENDED_BY(gconv_store_free) gconv_store shifted = {.limit = table->inputs.limit};
  GCONV_TRY(gconv_store_finish(&table->inputs));
  const gconv_entry *from = (const gconv_entry *)(const void *)table->inputs.bytes;
  for (size_t i = 0; i < entries; i++) {
    const gconv_entry entry = {from[i].column + 1, from[i].value};
    GCONV_TRY(gconv_store_append(&shifted, &entry, sizeof entry));
  }
  return gconv_store_replace(&table->inputs, &shifted);
}

/* A model stores this as the name of the labels, so that indices of its other tables count from 0, too. */
static const char label_from_zero[] = "label of indices from 0";

static gconv_status end(const reading *r) {
  gconv_table *table = r->table;
  const size_t columns = (size_t)r->most + r->from_zero;
  table->columns = columns > table->columns ? columns : table->columns;
  GCONV_TRY(gconv_table_check_columns(table, table->columns));
  if (r->queries)
    gconv_warn("%s: the numbers of queries (qid) are passed over", table->path);
  if (!r->from_zero)
    return GCONV_OK;
  if (table->origins)
    return gconv_fail(
        GCONV_UNSUPPORTED,
        "%s: its indices begin with 0, and the model subtracts numbers from its columns: give the table as CSV, "
        "or with indices from 1 on",
        table->path);
  if (!r->told_by_model)
    gconv_warn("%s: its indices begin with 0, as in files of scikit-learn", table->path);
  table->label = strdup(label_from_zero);
  return table->label ? shift_columns(table) : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for a name", table->path);
}

static gconv_status read_libsvm(gconv_source *source, gconv_table *table) {
  reading r = {.lines = {.source = source}, .table = table};
  bool found = true;
  gconv_status status = GCONV_OK;
  if (table->of_targets)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: LIBSVM's data have inputs, where targets alone are expected", table->path);
  table->sparse = true;
  table->labelled = !table->unlabelled && !table->options->regression;
  table->columns = table->options->columns;
  r.told_by_model = table->options->usual_label && strcmp(table->options->usual_label, label_from_zero) == 0;
  r.from_zero = r.told_by_model;
  GCONV_TRY(gconv_table_take_origins(table));
  while (status == GCONV_OK && (status = gconv_lines_next_filled(&r.lines, &found)) == GCONV_OK && found)
    status = read_line(&r);
  gconv_lines_free(&r.lines);
  return status == GCONV_OK ? end(&r) : status;
}

const gconv_table_syntax gconv_table_syntax_libsvm = {
    .name = "libsvm",
    .help = "LIBSVM's data: label index:value ...",
    .extensions = "libsvm svm svmlight",
    .recognise = recognise,
    .read = read_libsvm,
};
