/* SPDX-License-Identifier: MIT */
/*
 * With options->one_hot, a column of words becomes a column of 0 and 1 for each of its words, called "town=Ulm". While rows
 * are read, a word is stored as its number among the words of its column. Once all words are known, the columns are made. A
 * model keeps the names of these columns. Later tables are matched with them (match.c), and need no option.
 */
#include "base/memory.h"
#include "data/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 1000 }; /* the most words of a column */

gconv_status gconv_table_take_word(gconv_table *table, const char *begin, const char *end, const double *number,
                                   const char **wrong) {
  const size_t column = table->row.count;
  size_t word = 0;
  *wrong = NULL;
  for (; table->word_columns <= column; table->word_columns++) {
    gconv_words *words = gconv_grown(table->words, table->word_columns, sizeof *words);
    GCONV_NEED_MEMORY(words, "%s: no memory for %zu columns", table->path, column + 1);
    table->words = words;
    words[table->word_columns] = (gconv_words){.numbers = false};
  }
  gconv_words *own = &table->words[column];
  own->numbers |= number != NULL;
  if (!number)
    GCONV_TRY(gconv_labels_find(&own->labels, begin, end, &word, wrong));
  if (own->numbers && own->labels.count > 0)
    *wrong = "stands in a column that has both words and numbers: write gaps as ?, and kinds as words";
  else if (own->labels.count > MOST_WORDS)
    *wrong = "is one word too many: --one-hot takes 1000 different words of a column. Leave the column out";
  return *wrong ? GCONV_OK : gconv_row_add(&table->row, number ? *number : (double)word);
}

/* Returns how many columns column `index` becomes. */
static size_t width_of(const gconv_table *table, size_t index) {
  const size_t words = index < table->word_columns ? table->words[index].labels.count : 0;
  return words > 0 ? words : 1;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns a column other than `own` that has this name; sorted: the names of all columns. */
static const char *find_other(char *const *sorted, size_t count, const char *name, const char *own) {
  char *const *found = bsearch(&name, sorted, count, sizeof *sorted, compare_names);
  if (!found || *found != own)
    return found ? *found : NULL;
  const bool before = found > sorted && strcmp(found[-1], own) == 0;
  const bool after = found + 1 < sorted + count && strcmp(found[1], own) == 0;
  return before || after ? own : NULL;
}

/* Refuses ambiguous names: "a=b=c" could be the word b=c of a column a, or c of a column a=b (match.c). */
static gconv_status check_names(const gconv_table *table) {
  GCONV_FREED char **sorted = calloc(table->name_count + 1, sizeof *sorted);
  GCONV_NEED_MEMORY(sorted, "%s: no memory for the names of columns", table->path);
  memcpy(sorted, table->names, table->name_count * sizeof *sorted);
  qsort(sorted, table->name_count, sizeof *sorted, compare_names);
  for (size_t c = 0; c < table->word_columns; c++)
    for (size_t i = 0; i < table->words[c].labels.count; i++) {
      GCONV_FREED char *name = NULL;
      if (asprintf(&name, "%s=%s", table->names[c], table->words[c].labels.names[i]) < 0)
        return gconv_fail(GCONV_NO_MEMORY, "%s: no memory for the names of columns", table->path);
      const char *other = NULL;
      for (size_t end = strcspn(name, "="), length = strlen(name); end <= length && !other;
           end += 1 + strcspn(name + end + (end < length), "=")) {
        const char mark = name[end];
        name[end] = '\0';
        other = find_other(sorted, table->name_count, name, table->names[c]);
        name[end] = mark;
      }
      if (other)
        return gconv_fail(
            GCONV_BAD_FILE,
            "%s: --one-hot would make a column %.80s of column %.80s, and another column is called %.80s, so that a model "
            "could not tell them apart: rename one of the two",
            table->path, name, table->names[c], other);
    }
  return GCONV_OK;
}

static gconv_status name_columns(gconv_table *table, size_t width) {
  char **names = calloc(width + 1, sizeof *names);
  GCONV_NEED_MEMORY(names, "%s: no memory for %zu columns", table->path, width);
  size_t made = 0;
  bool good = true;
  for (size_t c = 0; c < table->columns; c++)
    for (size_t i = 0; i < width_of(table, c) && good; i++) {
      const bool words = c < table->word_columns && table->words[c].labels.count > 0;
      good = asprintf(&names[made++], "%s%s%s", table->names[c], words ? "=" : "",
                      words ? table->words[c].labels.names[i] : "") >= 0;
    }
  for (size_t c = 0; c < table->name_count; c++)
    free(table->names[c]);
  free(table->names);
  table->names = names;
  table->name_count = made;
  return good ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "%s: no memory for the names of columns", table->path);
}

/* Reports the columns of words, and how many words each has. */
static void tell(const gconv_table *table, size_t width) {
  char list[400] = "";
  size_t used = 0, columns = 0;
  for (size_t c = 0; c < table->word_columns; c++) {
    const size_t words = table->words[c].labels.count;
    columns += words > 0;
    if (words > 0 && used + 80 < sizeof list)
      used +=
          (size_t)snprintf(list + used, sizeof list - used, "%s%.50s (%zu)", used > 0 ? ", " : "", table->names[c], words);
  }
  gconv_warn("%s: %zu column%s of words became %zu of 0 and 1: %s", table->path, columns, columns == 1 ? "" : "s",
             width - table->columns + columns, list);
}

gconv_status gconv_table_spread_words(gconv_table *table) {
  size_t width = 0;
  for (size_t c = 0; c < table->columns; c++)
    width += width_of(table, c);
  bool any = false;
  for (size_t c = 0; c < table->word_columns; c++)
    any |= table->words[c].labels.count > 0;
  if (!any)
    return GCONV_OK;
  if (!table->names)
    return gconv_fail(GCONV_BAD_FILE, "%s: its columns have no names, which --one-hot needs: give it a header", table->path);
  if (width > GCONV_MOST_COLUMNS)
    return gconv_fail(GCONV_BAD_FILE, "%s: --one-hot would make %zu columns, and there may be %d", table->path, width,
                      GCONV_MOST_COLUMNS);
  GCONV_TRY(check_names(table));
  tell(table, width);
  GCONV_TRY(name_columns(table, width));
  GCONV_ENDED_BY(gconv_store_free) gconv_store spread = {.limit = table->inputs.limit};
  const double *number = (const double *)(const void *)table->inputs.bytes;
  for (size_t i = 0; i < table->cases; i++)
    for (size_t c = 0; c < table->columns; c++, number++)
      for (size_t k = 0, words = width_of(table, c); k < words; k++) {
        const bool is_word = c < table->word_columns && table->words[c].labels.count > 0;
        const double value = is_word && !isnan(*number) ? (double)(*number == (double)k) : *number;
        GCONV_TRY(gconv_store_append(&spread, &value, sizeof value));
      }
  table->columns = width;
  return gconv_store_replace(&table->inputs, &spread);
}

void gconv_table_free_words(gconv_table *table) {
  for (size_t c = 0; c < table->word_columns; c++)
    gconv_labels_free(&table->words[c].labels);
  free(table->words);
  table->words = NULL;
  table->word_columns = 0;
}
