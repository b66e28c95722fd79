/* SPDX-License-Identifier: MIT */
/* Plain filters as a bank of one channel. */
#include "bank/bank.h"
#include "filter/filter.h"

#include <string.h>

enum { MOST_GROWTH = 64 }; /* the most weights of a bank, for each tap of its filters */
#define MOST_LEVEL 255.0F  /* offsets of filters are for levels from 0 to 255; biases are for samples from 0 to 1 */

/* Taps before and after the anchor, along one axis. */
typedef struct reach {
  int32_t before, behind;
} reach;

static void extend(reach *all, int32_t size, int32_t anchor) {
  all->before = anchor > all->before ? anchor : all->before;
  all->behind = size - 1 - anchor > all->behind ? size - 1 - anchor : all->behind;
}

/* Returns the smallest size that has enough taps before and after its centre, size / 2. */
static int32_t size_around(reach all) {
  return all.before > all.behind ? 2 * all.before : 2 * all.behind + 1;
}

static void place(const gconv_filter *filter, int32_t rows, int32_t columns, float *plane) {
  memset(plane, 0, (size_t)rows * (size_t)columns * sizeof *plane);
  float *to = plane + (rows / 2 - filter->anchor_row) * (ptrdiff_t)columns + (columns / 2 - filter->anchor_column);
  for (int32_t r = 0; r < filter->rows; r++)
    for (int32_t s = 0; s < filter->columns; s++)
      to[r * (ptrdiff_t)columns + s] = filter->taps[r * (ptrdiff_t)filter->columns + s] / filter->divisor;
}

static gconv_status fill(const gconv_filters *filters, gconv_bank *bank) {
  const size_t plane = (size_t)bank->rows * (size_t)bank->columns;
  for (size_t k = 0; k < filters->count; k++) {
    const gconv_filter *filter = &filters->items[k];
    place(filter, bank->rows, bank->columns, bank->weights + k * plane);
    if (filter->offset != 0) {
      GCONV_TRY(gconv_bank_add_biases(bank));
      bank->biases[k] = filter->offset / MOST_LEVEL;
    }
    if (filter->name)
      GCONV_TRY(gconv_bank_name_filter(bank, (int32_t)k, filter->name));
  }
  return gconv_bank_check_finite("the stacked filters", GCONV_BAD_ARGUMENT, bank);
}

/* Fails if the bank would be mostly zeros: all its filters have one size, so a long column and a long row need large
 * planes. */
static gconv_status check_growth(gconv_bank_shape shape, uint64_t taps) {
  const uint64_t most = MOST_GROWTH * taps + (1 << 24), weights = gconv_bank_shape_weights(shape);
  if (weights <= most)
    return GCONV_OK;
  return gconv_fail(
      GCONV_TOO_LARGE,
      "the stacked filters: in one size, %llu rows x %llu columns, they would have more than %d times as many taps as the "
      "filters have now, which is the limit: make banks of filters of similar sizes",
      (unsigned long long)shape.rows, (unsigned long long)shape.columns, MOST_GROWTH);
}

gconv_status gconv_bank_stack(const gconv_filters *filters, gconv_bank *bank) {
  reach rows = {0, 0}, columns = {0, 0};
  uint64_t taps = 0;
  GCONV_NEED(filters, bank);
  if (filters->count == 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a bank needs at least one filter");
  GCONV_TRY(gconv_filters_check(filters));
  for (size_t k = 0; k < filters->count; k++) {
    const gconv_filter *filter = &filters->items[k];
    extend(&rows, filter->rows, filter->anchor_row);
    extend(&columns, filter->columns, filter->anchor_column);
    taps += (uint64_t)filter->rows * (uint64_t)filter->columns;
  }
  gconv_bank_shape shape = {filters->count, 1, (uint64_t)size_around(rows), (uint64_t)size_around(columns)};
  gconv_bank made = {0};
  GCONV_TRY(gconv_bank_check_shape("the stacked filters", shape));
  GCONV_TRY(check_growth(shape, taps));
  GCONV_TRY(gconv_bank_allocate(shape, &made));
  gconv_status status = fill(filters, &made);
  if (status == GCONV_OK)
    *bank = made;
  else
    gconv_bank_free(&made);
  return status;
}
