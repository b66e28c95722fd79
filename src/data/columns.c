/* SPDX-License-Identifier: MIT */
/* Notes about the columns of a data set: origins, if float32 cannot tell numbers apart; means that fill gaps; deviations. */
#include "bank/column_notes.h"
#include "base/memory.h"
#include "data/table.h"

#include <math.h>
#include <string.h>

/* ---- From float64 to float32 --------------------------------------------------------------------------------------- */

bool gconv_fits_float(double number) {
  return fabs(number) < 0x1.ffffffp127; /* halfway from the largest float to 2^128; false for NaN */
}

static double rounding_error(double number) {
  return fabs(number - (double)(float)number);
}

static const gconv_spread no_spread = {.least = (double)INFINITY, .most = -(double)INFINITY};

static void widen(gconv_spread *s, double number) {
  s->least = number < s->least ? number : s->least;
  s->most = number > s->most ? number : s->most;
  s->error = fmax(s->error, rounding_error(number));
  s->count++;
}

/* True if rounding to float32 leaves fewer than about 14 bits of the differences of the numbers. */
static bool is_lost(const gconv_spread *s) {
  return s->most > s->least && s->error * 0x1p14 > s->most - s->least;
}

void gconv_table_free_names(gconv_table *table) {
  for (size_t i = 0; table->names && i < table->name_count; i++)
    free(table->names[i]);
  free(table->names);
  free(table->label);
  table->names = NULL;
  table->label = NULL;
  table->name_count = 0;
}

/* "column 3 (height)"; returns `text`. */
static const char *name_column(const gconv_table *table, size_t index, char text[120]) {
  const char *name = table->names ? table->names[index] : "";
  snprintf(text, 120, *name ? "column %zu (%.80s)" : "column %zu", index + 1, name);
  return text;
}

static void tell_origin(const gconv_table *table, size_t column, const gconv_spread *s) {
  char name[120];
  gconv_warn("%s: %s: %.17g is taken off its numbers, which float32 could not tell apart: they go from %.17g to %.17g",
             table->path, name_column(table, column, name), s->least, s->least, s->most);
}

static void tell_lost(const gconv_table *table, size_t column) {
  char name[120];
  gconv_warn(
      "%s: %s: float32 cannot tell its numbers apart, as they are too close to 0 or to each other: multiply them by a "
      "larger unit first",
      table->path, name_column(table, column, name));
}

/* Warns of a column that has the same large number in each row: different integers may have been rounded to it. */
static void tell_huge(const gconv_table *table, size_t column, const gconv_spread *s) {
  char name[120];
  if (s->most == s->least && fabs(s->most) >= 0x1p53 && table->cases > 1)
    gconv_warn("%s: %s: all its numbers are %.17g in float64, which rounds them beyond 2^53: take a number off them first",
               table->path, name_column(table, column, name), s->most);
}

static gconv_spread *find_spreads(const gconv_table *table) {
  const double *numbers = (const double *)(const void *)table->inputs.bytes;
  gconv_spread *spreads = malloc((table->columns + 1) * sizeof *spreads);
  for (size_t c = 0; c < table->columns && spreads; c++)
    spreads[c] = no_spread;
  for (size_t i = 0; i < table->cases && spreads; i++)
    for (size_t c = 0; c < table->columns; c++)
      if (!isnan(numbers[i * table->columns + c]))
        widen(&spreads[c], numbers[i * table->columns + c]);
  return spreads;
}

/* Sets the origins. If float32 cannot tell the numbers of a column apart, its least number becomes its origin. */
static gconv_status choose_origins(gconv_table *table) {
  GCONV_FREED gconv_spread *spreads = find_spreads(table);
  GCONV_FREED double *origins = calloc(table->columns + 1, sizeof *origins);
  bool any = false;
  GCONV_NEED_MEMORY(spreads && origins, "%s: no memory for %zu columns", table->path, table->columns);
  for (size_t c = 0; c < table->columns; c++) {
    const gconv_spread *s = &spreads[c];
    tell_huge(table, c, s);
    if (!is_lost(s))
      continue;
    const double most = s->most - s->least;
    const gconv_spread moved = {0, most, rounding_error(most), 0};
    if (is_lost(&moved)) { /* an origin does not help: the differences are too small for float32 */
      tell_lost(table, c);
      continue;
    }
    origins[c] = s->least;
    tell_origin(table, c, s);
    any = true;
  }
  if (any)
    table->origins = gconv_taken(&origins);
  return GCONV_OK;
}

static gconv_status take_origins(gconv_table *table, const gconv_column_notes *like) {
  if (!like->origins || (like->count != table->columns && !table->sparse))
    return GCONV_OK;
  GCONV_NEW(table->origins, like->count, "%s: no memory for %zu columns", table->path, like->count);
  memcpy(table->origins, like->origins, like->count * sizeof *table->origins);
  return GCONV_OK;
}

gconv_status gconv_table_see(gconv_table *table, size_t column, double number) {
  enum { MOST = 1 << 16 }; /* a file of few bytes may have millions of columns */
  for (; column < MOST && table->spread_count <= column; table->spread_count++) {
    GCONV_GROW(table->spreads, table->spread_count, "%s: no memory for %zu columns", table->path, column + 1);
    table->spreads[table->spread_count] = no_spread;
  }
  if (column < MOST)
    widen(&table->spreads[column], number);
  return GCONV_OK;
}

/* Appends origins of 0 for the columns of a sparse table that the model does not know. */
static gconv_status finish_origins(gconv_table *table) {
  const size_t known = table->origins ? table->options->like->count : 0;
  double *origins =
      table->origins && table->columns > known ? realloc(table->origins, table->columns * sizeof *origins) : NULL;
  if (table->columns <= known || !table->origins)
    return GCONV_OK;
  GCONV_NEED_MEMORY(origins, "%s: no memory for %zu columns", table->path, table->columns);
  for (size_t c = known; c < table->columns; c++)
    origins[c] = 0;
  table->origins = origins;
  return GCONV_OK;
}

/* Warns of sparse columns whose numbers float32 cannot tell apart. They get no origins, since absent entries are 0. */
static void tell_sparse(const gconv_table *table) {
  for (size_t c = 0; c < table->spread_count && !table->origins; c++)
    if (table->spreads[c].count == table->cases && is_lost(&table->spreads[c]))
      gconv_warn(
          "%s: float32 cannot tell the numbers of index %zu apart, which go from %.17g to %.17g: take %.17g off them, or "
          "give the table as CSV",
          table->path, c, table->spreads[c].least, table->spreads[c].most, table->spreads[c].least);
}

gconv_status gconv_table_take_origins(gconv_table *table) {
  const gconv_column_notes *like = table->options->like;
  return like ? take_origins(table, like) : GCONV_OK;
}

gconv_status gconv_table_round(gconv_table *table) {
  const gconv_column_notes *like = table->options->like;
  GCONV_ENDED_BY(gconv_store_free) gconv_store rounded = {.limit = table->inputs.limit};
  if (table->sparse) {
    tell_sparse(table);
    return finish_origins(table);
  }
  if (!table->of_targets && table->height <= 1 && table->width <= 1)
    GCONV_TRY(like ? take_origins(table, like) : choose_origins(table));
  const double *numbers = (const double *)(const void *)table->inputs.bytes;
  for (size_t i = 0; i < table->cases; i++)
    for (size_t c = 0; c < table->columns; c++) {
      float number =
          (float)(table->origins ? numbers[i * table->columns + c] - table->origins[c] : numbers[i * table->columns + c]);
      table->gaps |= isnan(number);
      GCONV_TRY(gconv_store_append(&rounded, &number, sizeof number));
    }
  return gconv_store_replace(&table->inputs, &rounded);
}

/* ---- Means and deviations ------------------------------------------------------------------------------------------ */

/* Sums over the numbers of a column, and over their differences from the first, so that large means cost no digits. */
typedef struct sums {
  double count, sum, first, moved, squares;
} sums;

typedef struct column_sums {
  sums *all;
  size_t columns;
} column_sums;

static void add_numbers(sums *all, const float *numbers, size_t columns) {
  for (size_t c = 0; c < columns; c++) {
    sums *s = &all[c];
    double number = (double)numbers[c];
    if (isnan(number))
      continue;
    s->first = s->count == 0 ? number : s->first;
    s->count++;
    s->sum += number;
    s->moved += number - s->first;
    s->squares += (number - s->first) * (number - s->first);
  }
}

static void add_cases(void *context, size_t first, size_t count, const float *inputs, const float *targets) {
  const column_sums *s = context;
  for (size_t i = 0; i < count; i++)
    add_numbers(s->all, inputs + i * s->columns, s->columns);
}

static void set_numbers(gconv_column_notes *notes, const sums *all) {
  for (size_t c = 0; c < notes->count; c++) {
    const sums *s = &all[c];
    double count = s->count > 0 ? s->count : 1, moved = s->moved / count, variance = s->squares / count - moved * moved;
    notes->means[c] = s->sum / count + (notes->origins ? notes->origins[c] : 0);
    notes->deviations[c] = variance > 0 ? sqrt(variance) : 0;
  }
}

static gconv_status check_numbers(const gconv_dataset *data, const sums *all) {
  char *const *names = data->info.notes.names;
  for (size_t c = 0; c < data->info.notes.count && data->gaps; c++)
    if (all[c].count == 0)
      return gconv_fail(
          GCONV_BAD_FILE,
          "column %zu%s%s%s has no number at all in the %zu cases that are learned, so there is no mean to put "
          "in: remove it",
          c + 1, names ? " (" : "", names ? names[c] : "", names ? ")" : "", data->info.cases);
  return GCONV_OK;
}

gconv_status gconv_dataset_measure(gconv_dataset *data) {
  gconv_column_notes *notes = &data->info.notes;
  const size_t columns = notes->count;
  GCONV_FREED sums *all = calloc(columns, sizeof *all);
  if (!notes->means)
    notes->means = malloc(columns * sizeof *notes->means);
  if (!notes->deviations)
    notes->deviations = malloc(columns * sizeof *notes->deviations);
  GCONV_NEED_MEMORY(all && notes->means && notes->deviations, "no memory for the means of %zu columns", columns);
  GCONV_TRY(gconv_dataset_each(data, false, add_cases, &(column_sums){all, columns}));
  GCONV_TRY(check_numbers(data, all));
  set_numbers(notes, all);
  return GCONV_OK;
}

/* ---- Gaps ---------------------------------------------------------------------------------------------------------- */

gconv_status gconv_dataset_fill(gconv_dataset *data) {
  const gconv_column_notes *notes = &data->info.notes;
  free(data->fills);
  data->fills = data->gaps ? malloc(notes->count * sizeof *data->fills) : NULL;
  if (!data->gaps)
    return GCONV_OK;
  GCONV_NEED_MEMORY(data->fills, "no memory for the means of %zu columns", notes->count);
  for (size_t c = 0; c < notes->count; c++)
    data->fills[c] = (float)(notes->means[c] - (notes->origins ? notes->origins[c] : 0));
  return GCONV_OK;
}

gconv_status gconv_dataset_note(gconv_dataset *data, const gconv_column_notes *like) {
  gconv_column_notes *notes = &data->info.notes;
  notes->count = gconv_dataset_input_floats(&data->info);
  data->noted = like && like->count == notes->count && (like->means || !data->gaps);
  if (data->noted) {
    gconv_column_notes_free(notes);
    GCONV_TRY(gconv_column_notes_copy(like, notes));
    data->info.columns = (const char *const *)notes->names;
  } else {
    if (like && data->gaps)
      gconv_warn("the model keeps no means of the columns, as an older gconv wrote it: numbers that are missing become the "
                 "means of this table");
    GCONV_TRY(gconv_dataset_measure(data));
  }
  return gconv_dataset_fill(data);
}
