/* SPDX-License-Identifier: MIT */
/* LIBSVM's data: a line a case, "label index:value index:value ...". Indices begin with 1 and ascend; what is absent is 0.
 * Rows are kept as entries: a file of few bytes may have millions of columns. */
#include "learn/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Whether the first line is a label and, behind it, a number with a colon. */
static bool recognise(const uint8_t *bytes, size_t size) {
  const char *at = (const char *)bytes, *end = at + size, *field = at;
  while (at < end && !isspace((unsigned char)*at))
    at++;
  double label;
  char copy[64] = "";
  if (at == field || (size_t)(at - field) >= sizeof copy)
    return false;
  memcpy(copy, field, (size_t)(at - field));
  if (gconv_field_read(copy, copy + (at - field), &label) != GCONV_FIELD_NUMBER)
    return false;
  while (at < end && (*at == ' ' || *at == '\t'))
    at++;
  const char *digits = at;
  while (at < end && isdigit((unsigned char)*at))
    at++;
  return at > digits && at < end && *at == ':';
}

static gconv_status read_label(gconv_lines *lines, gconv_table *table, char *word, size_t length, size_t *label) {
  const char *wrong = NULL;
  double value;
  if (table->unlabelled)
    return GCONV_OK;
  if (table->options->regression) {
    if (gconv_field_read(word, word + length, &value) != GCONV_FIELD_NUMBER)
      return gconv_lines_fail(lines, "the target is \"%.*s\", which is no number", (int)(length < 40 ? length : 40), word);
    return gconv_row_add(&table->target, value);
  }
  if (memchr(word, ':', length))
    return gconv_lines_fail(lines, "begins with \"%.*s\", where a label is expected", (int)(length < 40 ? length : 40),
                            word);
  if (memchr(word, ',', length))
    return gconv_lines_fail(lines, "has several labels, \"%.*s\": gconv takes one a case", (int)(length < 40 ? length : 40),
                            word);
  GCONV_TRY(gconv_labels_find(&table->labels, word, word + length, label, &wrong));
  return wrong ? gconv_lines_fail(lines, "the label \"%.*s\" %s", (int)(length < 40 ? length : 40), word, wrong) : GCONV_OK;
}

static gconv_status read_entry(gconv_lines *lines, gconv_table *table, const char *word, size_t length, uint32_t *last) {
  int shown = (int)(length < 40 ? length : 40);
  const char *colon = memchr(word, ':', length);
  uint64_t index = 0;
  double value;
  const char *at = word;
  for (; colon && at < colon && isdigit((unsigned char)*at) && index <= UINT32_MAX; at++)
    index = 10 * index + (uint64_t)(*at - '0');
  if (!colon || at < colon || at == word)
    return gconv_lines_fail(lines, "\"%.*s\" is not INDEX:VALUE", shown, word);
  if (index == 0)
    return gconv_lines_fail(lines, "\"%.*s\": indices begin with 1", shown, word);
  if (index <= *last)
    return gconv_lines_fail(lines, "index %llu follows %u: indices must ascend", (unsigned long long)index, *last);
  GCONV_TRY(gconv_table_check_columns(table, index));
  gconv_field kind = gconv_field_read(colon + 1, word + length, &value);
  if (kind == GCONV_FIELD_NOT_FINITE)
    return gconv_lines_fail(lines, "\"%.*s\": numbers must be finite, and fit into float32", shown, word);
  if (kind == GCONV_FIELD_TEXT)
    return gconv_lines_fail(lines, "\"%.*s\": there is no number behind the colon", shown, word);
  GCONV_TRY(gconv_table_see(table, (size_t)index - 1, value));
  const bool has_origin = table->origins && index <= table->options->like->count;
  const gconv_entry entry = {(uint32_t)index - 1, (float)(value - (has_origin ? table->origins[index - 1] : 0))};
  *last = (uint32_t)index;
  table->columns = index > table->columns ? (size_t)index : table->columns;
  return gconv_store_append(&table->inputs, &entry, sizeof entry);
}

static gconv_status read_line(gconv_lines *lines, gconv_table *table) {
  static const char blank[] = " \t";
  char *comment = strchr(lines->text, '#');
  size_t label = 0;
  uint32_t last = 0;
  if (comment)
    *comment = '\0';
  char *at = lines->text + strspn(lines->text, blank);
  size_t length = strcspn(at, blank);
  if (length == 0)
    return GCONV_OK;
  GCONV_TRY(read_label(lines, table, at, length, &label));
  for (at += length, at += strspn(at, blank); *at; at += length, at += strspn(at, blank)) {
    length = strcspn(at, blank);
    GCONV_TRY(read_entry(lines, table, at, length, &last));
  }
  const uint64_t end = table->inputs.size / sizeof(gconv_entry);
  const float class = (float)label;
  GCONV_TRY(gconv_store_append(&table->ends, &end, sizeof end));
  if (table->labelled)
    GCONV_TRY(gconv_store_append(&table->targets, &class, sizeof class));
  else
    GCONV_TRY(gconv_table_keep_targets(table));
  table->target.count = 0;
  table->cases++;
  return GCONV_OK;
}

static gconv_status read_libsvm(gconv_source *source, gconv_table *table) {
  gconv_lines lines = {.source = source};
  bool found = true;
  gconv_status status = GCONV_OK;
  if (table->of_targets)
    return gconv_fail(GCONV_UNSUPPORTED, "%s: LIBSVM's data have inputs, where targets alone are expected", table->path);
  table->sparse = true;
  table->labelled = !table->unlabelled && !table->options->regression;
  table->columns = table->options->columns;
  GCONV_TRY(gconv_table_take_origins(table));
  while (status == GCONV_OK && (status = gconv_lines_next_filled(&lines, &found)) == GCONV_OK && found)
    status = read_line(&lines, table);
  gconv_lines_free(&lines);
  return status;
}

const gconv_table_syntax gconv_table_syntax_libsvm = {
    .name = "libsvm",
    .help = "LIBSVM's data: label index:value ...",
    .extensions = "libsvm svm svmlight",
    .recognise = recognise,
    .read = read_libsvm,
};
