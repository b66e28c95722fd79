/* SPDX-License-Identifier: MIT */
#include "filter/filter.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

gconv_status gconv_filters_add(gconv_filters *list, int32_t rows, int32_t columns, gconv_filter **filter) {
  size_t bytes = gconv_checked_product(3, (size_t[]){(size_t)rows, (size_t)columns, sizeof(float)});
  GCONV_GROW(list->items, list->count, "no memory for a list of %zu filters", list->count + 1);
  float *taps;
  GCONV_ALLOCATE(taps, bytes, "a filter");
  memset(taps, 0, bytes);
  *filter = &list->items[list->count++];
  **filter = (gconv_filter){
      .rows = rows, .columns = columns, .anchor_row = rows / 2, .anchor_column = columns / 2, .divisor = 1, .taps = taps};
  return GCONV_OK;
}

void gconv_filters_truncate(gconv_filters *list, size_t count) {
  while (list->count > count) {
    gconv_filter *last = &list->items[--list->count];
    free(last->name);
    gconv_release(last->taps);
  }
}

gconv_status gconv_filters_name(gconv_filters *list, size_t first, const char *name) {
  bool several = list->count - first > 1;
  for (size_t i = first; i < list->count; i++) {
    gconv_filter *filter = &list->items[i];
    if (!filter->name)
      filter->name = several ? gconv_format_text("%s_%zu", name, i - first + 1) : gconv_format_text("%s", name);
    GCONV_NEED_MEMORY(filter->name, "no memory for the name of a filter");
  }
  return GCONV_OK;
}

void gconv_filters_free(gconv_filters *list) {
  if (!list)
    return;
  if (list->items)
    gconv_filters_truncate(list, 0);
  free(list->items);
  *list = (gconv_filters){0};
}

/* If the taps of an average are written with three digits, their sum is off by 1e-3; with the five digits of dlmwrite, by
 * less. If taps are only rounded to float32, their sum is off by less than 1e-6 of sum |tap|. */
void gconv_filter_warn_rounded(const char *where, const gconv_filter *filter) {
  const double seen = 1e-6, nearly_one = 2e-3, nearly_zero = 1e-3;
  double sum = 0, magnitude = 0;
  for (size_t i = 0; i < (size_t)filter->rows * (size_t)filter->columns; i++) {
    sum += (double)filter->taps[i] / (double)filter->divisor;
    magnitude += fabs((double)filter->taps[i] / (double)filter->divisor);
  }
  bool one = fabs(sum - 1) > seen * magnitude && fabs(sum - 1) < nearly_one;
  bool zero = fabs(sum) > seen * magnitude && fabs(sum) < nearly_zero * fmin(magnitude, 1);
  if (one || zero)
    gconv_warn("%s: the taps sum to %.7g, nearly but not quite %d: were they written with too few digits? They are used as "
               "they are",
               where, sum, one ? 1 : 0);
}
