/* SPDX-License-Identifier: MIT */
/* Finds the columns of a model among the fields of a table, by name. */
#include "base/memory.h"
#include "data/table.h"

#include <string.h>

/* Returns "a, b, c ...", a list of the names that are not passed over, for free(); NULL: no memory. *shown: their number. */
static char *list_names(char *const *names, size_t count, const bool *passed_over, size_t *shown) {
  enum { MOST_SHOWN = 20 };
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  *shown = 0;
  for (size_t i = 0; i < count && out; i++)
    if (!(passed_over && passed_over[i]) && (*shown)++ < MOST_SHOWN)
      fprintf(out, "%s%.40s", *shown > 1 ? ", " : "", names[i]);
  if (out && *shown > MOST_SHOWN)
    fprintf(out, " ... (%zu in all)", *shown);
  return out && gconv_close_text(out, &text) ? text : NULL;
}

static gconv_status refuse(const gconv_table *table, const gconv_names *header, const char *wrong) {
  const gconv_column_notes *like = table->options->like;
  size_t shown;
  GCONV_FREED char *found = list_names(header->names, header->count, NULL, &shown);
  GCONV_FREED char *wanted = list_names(like->names, like->count, NULL, &shown);
  return gconv_fail(
      GCONV_BAD_FILE,
      "%s: %s. The model takes the columns %s; the table has %s. Rename its columns, or leave out its header if they "
      "have the order of the model",
      table->path, wrong, wanted ? wanted : "?", found ? found : "?");
}

static bool are_same(const gconv_names *header, const gconv_column_notes *like, size_t label) {
  for (size_t i = 0, k = 0; i < header->count; i++) {
    if (i == label)
      continue;
    if (k == like->count || strcmp(header->names[i], like->names[k++]) != 0)
      return false;
  }
  return header->count - (label < header->count) == like->count;
}

/* Returns how many fields have this name; *field: the first of these. */
static size_t find_field(const gconv_names *header, const char *name, size_t *field) {
  size_t count = 0;
  for (size_t i = 0; i < header->count; i++)
    if (strcmp(header->names[i], name) == 0 && count++ == 0)
      *field = i;
  return count;
}

const char *gconv_names_word(const char *column, const char *field) {
  const size_t length = strlen(field);
  return strncmp(column, field, length) == 0 && column[length] == '=' ? column + length + 1 : NULL;
}

/* Returns how many fields the column `name` may be a word of; *field: the first of these. */
static size_t find_words(const gconv_names *header, const char *name, size_t *field) {
  size_t count = 0;
  for (size_t i = 0; i < header->count; i++)
    if (gconv_names_word(name, header->names[i]) && count++ == 0)
      *field = i;
  return count;
}

static void tell_others(const gconv_table *table, const gconv_names *header, const bool *taken) {
  size_t count;
  GCONV_FREED char *text = list_names(header->names, header->count, taken, &count);
  if (text && count > 0)
    gconv_warn("%s: %zu column%s that the model does not know %s passed over: %s", table->path, count, count == 1 ? "" : "s",
               count == 1 ? "is" : "are", text);
}

/* Called if the model has the column of labels as an input. If exactly one column is left, it has the labels. */
static gconv_status move_label(const gconv_table *table, const gconv_names *header, const bool *taken, size_t *label) {
  size_t others = 0;
  for (size_t i = 0; i < header->count; i++)
    if (!taken[i]) {
      others++;
      *label = i;
    }
  return others == 1 ? GCONV_OK : refuse(table, header, "name the column of labels with --label");
}

gconv_status gconv_table_match(const gconv_table *table, const gconv_names *header, size_t *label, size_t **order) {
  const gconv_column_notes *like = table->options->like;
  char wrong[200];
  GCONV_FREED bool *taken = calloc(header->count + 1, sizeof *taken);
  GCONV_FREED size_t *found = calloc(like->count + 1, sizeof *found);
  GCONV_NEED_MEMORY(taken && found, "%s: no memory for %zu columns", table->path, like->count);
  const bool same = are_same(header, like, *label);
  for (size_t j = 0, i = 0; j < like->count; j++) {
    size_t count = same ? 1 : find_field(header, like->names[j], &found[j]);
    count = count > 0 ? count : find_words(header, like->names[j], &found[j]);
    if (same) {
      i += i == *label;
      found[j] = i++;
    }
    snprintf(wrong, sizeof wrong, count == 0 ? "there is no column %.100s" : "several columns are called %.100s",
             like->names[j]);
    if (count != 1)
      return refuse(table, header, wrong);
    taken[found[j]] = true;
  }
  if (*label < header->count && taken[*label])
    GCONV_TRY(move_label(table, header, taken, label));
  if (*label < header->count)
    taken[*label] = true;
  tell_others(table, header, taken);
  *order = gconv_taken(&found);
  return GCONV_OK;
}
