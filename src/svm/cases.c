/* SPDX-License-Identifier: MIT */
/* The cases of a support vector machine, the scaling of their columns, and their folds. */
#include "base/memory.h"
#include "data/dataset.h"
#include "data/random.h"
#include "svm/svm.h"

#include <math.h>
#include <string.h>

/* Makes room for one more entry; the room is a power of two. */
static gconv_status make_room(gconv_svm_cases *cases) {
  size_t now = cases->index ? gconv_room(cases->entries * sizeof(float)) : 0;
  size_t needed = gconv_room((cases->entries + 1) * sizeof(float));
  if (needed == now)
    return GCONV_OK;
  uint32_t *index = needed < SIZE_MAX ? realloc(cases->index, needed) : NULL;
  cases->index = index ? index : cases->index;
  float *values = index ? realloc(cases->values, needed) : NULL;
  cases->values = values ? values : cases->values;
  return values ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for %zu numbers of cases", cases->entries + 1);
}

gconv_status gconv_svm_cases_entry(gconv_svm_cases *cases, uint32_t column, float value) {
  if (value == 0)
    return GCONV_OK;
  GCONV_TRY(make_room(cases));
  cases->index[cases->entries] = column;
  cases->values[cases->entries++] = value;
  cases->row_entries++;
  return GCONV_OK;
}

gconv_status gconv_svm_cases_end_row(gconv_svm_cases *cases) {
  GCONV_GROW(cases->rows, cases->count, "no memory for %zu cases", cases->count + 1);
  cases->rows[cases->count++] = (gconv_svm_row){.count = cases->row_entries};
  cases->row_entries = 0;
  return GCONV_OK;
}

gconv_status gconv_svm_cases_add(gconv_svm_cases *cases, const float *row) {
  for (size_t c = 0; c < cases->columns; c++)
    GCONV_TRY(gconv_svm_cases_entry(cases, (uint32_t)c, row[c]));
  return gconv_svm_cases_end_row(cases);
}

gconv_status gconv_svm_cases_copy_row(gconv_svm_cases *cases, const gconv_svm_row *row) {
  for (size_t k = 0; k < row->count; k++)
    GCONV_TRY(gconv_svm_cases_entry(cases, row->columns[k], row->values[k]));
  return gconv_svm_cases_end_row(cases);
}

void gconv_svm_cases_finish(gconv_svm_cases *cases) {
  size_t entries = 0;
  for (size_t i = 0; i < cases->count; i++) {
    gconv_svm_row *row = &cases->rows[i];
    if (entries + row->count > 0) { /* a table may have no entries */
      row->columns = cases->index + entries;
      row->values = cases->values + entries;
    }
    row->norm = gconv_svm_norm(row->values, row->count);
    entries += row->count;
  }
}

void gconv_svm_cases_free(gconv_svm_cases *cases) {
  free(cases->index);
  free(cases->values);
  free(cases->rows);
  free(cases->targets);
  *cases = (gconv_svm_cases){0};
}

static gconv_status add_cases(const gconv_dataset *data, size_t room, size_t *numbers, float *inputs,
                              gconv_svm_cases *cases) {
  size_t all = gconv_dataset_get_info(data)->cases;
  for (size_t first = 0; first < all; first += room) {
    size_t count = all - first < room ? all - first : room;
    GCONV_TRY(gconv_control_check());
    for (size_t i = 0; i < count; i++)
      numbers[i] = first + i;
    GCONV_TRY(data->type->read(data, 0, numbers, count, inputs, cases->targets + first));
    for (size_t i = 0; i < count; i++) {
      for (size_t c = 0; c < cases->columns; c++)
        if (!isfinite(inputs[i * cases->columns + c]) && !(data->gaps && isnan(inputs[i * cases->columns + c])))
          return gconv_fail(GCONV_BAD_ARGUMENT, "case %zu: column %zu is not a finite number", first + i + 1, c + 1);
      if (!isfinite(cases->targets[first + i]))
        return gconv_fail(GCONV_BAD_ARGUMENT, "case %zu: the target is not a finite number", first + i + 1);
      GCONV_TRY(gconv_svm_cases_add(cases, inputs + i * cases->columns));
    }
  }
  return GCONV_OK;
}

/* Adds the cases of a sparse data set, whose numbers are all finite. */
static gconv_status add_sparse_cases(const gconv_dataset *data, gconv_svm_cases *cases) {
  const size_t all = gconv_dataset_get_info(data)->cases;
  for (size_t i = 0; i < all; i++) {
    const gconv_entry *entries;
    size_t count;
    if (!data->type->entries(data, i, &entries, &count, &cases->targets[i]))
      return gconv_fail(GCONV_UNSUPPORTED, "case %zu is not kept as entries", i + 1);
    for (size_t k = 0; k < count; k++)
      GCONV_TRY(gconv_svm_cases_entry(cases, entries[k].column, entries[k].value));
    GCONV_TRY(gconv_svm_cases_end_row(cases));
  }
  return GCONV_OK;
}

gconv_status gconv_svm_cases_read(const gconv_dataset *data, gconv_svm_cases *cases) {
  enum { FLOATS = 1 << 20 };
  const gconv_dataset_info *info = gconv_dataset_get_info(data);
  cases->columns = gconv_dataset_input_floats(info);
  cases->gaps = data->gaps;
  const size_t room = FLOATS / cases->columns + 1;
  GCONV_FREED size_t *numbers = malloc(room * sizeof *numbers);
  GCONV_FREED float *inputs = malloc(room * cases->columns * sizeof *inputs);
  cases->targets = malloc((info->cases + 1) * sizeof *cases->targets);
  GCONV_NEED_MEMORY(numbers && inputs && cases->targets, "no memory for %zu cases", info->cases);
  GCONV_TRY(gconv_dataset_is_sparse(data) ? add_sparse_cases(data, cases) : add_cases(data, room, numbers, inputs, cases));
  gconv_svm_cases_finish(cases);
  return GCONV_OK;
}

/* ---- Scaling ---- */

/* Sets the numbers that fill gaps: the mean of each column over cases members[0 .. count). */
static gconv_status find_fills(const gconv_svm_cases *cases, const size_t *members, size_t count, gconv_svm_range *range) {
  double *sums = calloc(cases->columns, sizeof *sums);
  size_t *gaps = calloc(cases->columns, sizeof *gaps), empty = SIZE_MAX;
  range->fills = malloc(cases->columns * sizeof *range->fills);
  const bool enough = sums && gaps && range->fills;
  for (size_t i = 0; i < count && enough; i++) {
    const gconv_svm_row *row = &cases->rows[members[i]];
    for (size_t k = 0; k < row->count; k++) {
      gaps[row->columns[k]] += isnan(row->values[k]);
      sums[row->columns[k]] += isnan(row->values[k]) ? 0 : (double)row->values[k];
    }
  }
  for (size_t c = 0; c < cases->columns && enough; c++) {
    range->fills[c] = (float)(sums[c] / (double)(count - gaps[c]));
    empty = gaps[c] == count ? c : empty;
  }
  free(sums);
  free(gaps);
  GCONV_NEED_MEMORY(enough, "no memory for the means of %zu columns", cases->columns);
  return empty == SIZE_MAX
             ? GCONV_OK
             : gconv_fail(GCONV_BAD_ARGUMENT,
                          "column %zu has no number at all in the %zu cases of the training, so that no mean can fill "
                          "its gaps: remove the column",
                          empty + 1, count);
}

static float filled(const gconv_svm_range *range, size_t column, float value) {
  return range->fills && isnan(value) ? range->fills[column] : value;
}

/* Sets the range of each column to mean - standard deviation .. mean + standard deviation, which become -1 and 1. The first
 * number of a column is subtracted before summing, so that large means cost no digits. */
static gconv_status find_deviations(const gconv_svm_cases *cases, const size_t *members, size_t count,
                                    gconv_svm_range *range) {
  const size_t columns = cases->columns;
  GCONV_FREED double *sums = calloc(2 * columns, sizeof *sums), *origins = calloc(columns, sizeof *origins);
  GCONV_FREED size_t *met = calloc(columns, sizeof *met); /* how many entries each column has */
  if (!sums || !origins || !met)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the ranges of %zu columns", columns);
  for (size_t i = 0; i < count; i++) {
    const gconv_svm_row *row = &cases->rows[members[i]];
    for (size_t k = 0; k < row->count; k++) {
      size_t c = row->columns[k];
      double number = (double)filled(range, c, row->values[k]);
      if (met[c]++ == 0)
        origins[c] = number;
      double value = number - origins[c];
      sums[2 * c] += value;
      sums[2 * c + 1] += value * value;
    }
  }
  for (size_t c = 0; c < columns; c++) {
    double n = (double)count, zeros = n - (double)met[c]; /* zeros are not in the rows */
    double mean = (sums[2 * c] - zeros * origins[c]) / n;
    double variance = (sums[2 * c + 1] + zeros * origins[c] * origins[c]) / n - mean * mean;
    double deviation = variance > 0 ? sqrt(variance) : 0;
    range->least[c] = origins[c] + mean - deviation;
    range->most[c] = origins[c] + mean + deviation;
  }
  return GCONV_OK;
}

gconv_status gconv_svm_range_find(const gconv_svm_cases *cases, const size_t *members, size_t count,
                                  gconv_svm_scaling scaling, gconv_svm_range *range) {
  range->lower = scaling == GCONV_SVM_SCALE_UNIT ? 0 : -1;
  range->upper = 1;
  if (cases->gaps)
    GCONV_TRY(find_fills(cases, members, count, range));
  if (scaling == GCONV_SVM_UNSCALED)
    return GCONV_OK;
  size_t *met = calloc(cases->columns, sizeof *met); /* how many entries each column has */
  range->least = malloc(cases->columns * sizeof *range->least);
  range->most = malloc(cases->columns * sizeof *range->most);
  if (!met || !range->least || !range->most) {
    free(met);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for the ranges of %zu columns", cases->columns);
  }
  if (scaling == GCONV_SVM_SCALE_STANDARD) {
    free(met);
    return find_deviations(cases, members, count, range);
  }
  for (size_t i = 0; i < count; i++) {
    const gconv_svm_row *row = &cases->rows[members[i]];
    for (size_t k = 0; k < row->count; k++) {
      size_t c = row->columns[k];
      double value = (double)filled(range, c, row->values[k]);
      range->least[c] = met[c] == 0 || value < range->least[c] ? value : range->least[c];
      range->most[c] = met[c] == 0 || value > range->most[c] ? value : range->most[c];
      met[c]++;
    }
  }
  for (size_t c = 0; c < cases->columns; c++)
    if (met[c] < count) { /* some numbers are 0 */
      range->least[c] = met[c] > 0 && range->least[c] < 0 ? range->least[c] : 0;
      range->most[c] = met[c] > 0 && range->most[c] > 0 ? range->most[c] : 0;
    }
  free(met);
  return GCONV_OK;
}

void gconv_svm_range_column(const gconv_svm_range *range, size_t column, const float *from, size_t count, float *to) {
  if (!range->least) {
    for (size_t i = 0; i < count; i++)
      to[i] = filled(range, column, from[i]);
    return;
  }
  const double least = range->least[column], width = range->most[column] - least;
  for (size_t i = 0; i < count; i++)
    to[i] = width > 0 ? (float)(range->lower +
                                (range->upper - range->lower) * ((double)filled(range, column, from[i]) - least) / width)
                      : 0;
}

void gconv_svm_range_row(const gconv_svm_range *range, size_t columns, const float *from, float *to) {
  for (size_t c = 0; c < columns; c++)
    gconv_svm_range_column(range, c, from + c, 1, to + c);
}

gconv_status gconv_svm_range_cases(const gconv_svm_range *range, const gconv_svm_cases *from, gconv_svm_cases *to) {
  size_t columns = from->columns;
  float *row = calloc(2 * columns, sizeof *row);
  gconv_status status = row ? GCONV_OK : gconv_fail(GCONV_NO_MEMORY, "no memory for a row of %zu columns", columns);
  to->columns = columns;
  for (size_t i = 0; i < from->count && status == GCONV_OK; i++) {
    memset(row, 0, columns * sizeof *row);
    for (size_t k = 0; k < from->rows[i].count; k++)
      row[from->rows[i].columns[k]] = from->rows[i].values[k];
    gconv_svm_range_row(range, columns, row, row + columns);
    status = gconv_svm_cases_add(to, row + columns);
  }
  free(row);
  to->targets = malloc((from->count + 1) * sizeof *to->targets);
  if (status == GCONV_OK && !to->targets)
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for %zu targets", from->count);
  if (status == GCONV_OK) {
    memcpy(to->targets, from->targets, from->count * sizeof *to->targets);
    gconv_svm_cases_finish(to);
  }
  return status;
}

void gconv_svm_range_free(gconv_svm_range *range) {
  free(range->least);
  free(range->most);
  free(range->fills);
  *range = (gconv_svm_range){0};
}

/* ---- Folds ---- */

gconv_status gconv_svm_deal(const gconv_svm_cases *cases, const size_t *members, size_t count, size_t class_count,
                            size_t folds, uint64_t seed, uint64_t stream, size_t *fold) {
  size_t *order = malloc((count + 1) * sizeof *order), *dealt = calloc(class_count + 1, sizeof *dealt);
  if (!order || !dealt) {
    free(order);
    free(dealt);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for folds of %zu cases", count);
  }
  for (size_t k = 0; k < count; k++)
    order[k] = k;
  gconv_random_shuffle(seed, GCONV_RANDOM_FOLDS, stream, order, count);
  if (class_count == 0)
    for (size_t k = 0; k < count; k++)
      fold[order[k]] = k % folds;
  for (size_t k = 0; k < count && class_count > 0; k++) {
    size_t class = (size_t)cases->targets[members[order[k]]];
    fold[order[k]] = (dealt[class]++ + class) % folds; /* + class: small classes do not all begin with fold 0 */
  }
  free(order);
  free(dealt);
  return GCONV_OK;
}
