/* SPDX-License-Identifier: MIT */
/* Makes operations of plain filters: copies of the filters and of the options. */
#include "base/arguments.h"
#include "base/memory.h"
#include "conv/plan.h"
#include "operation/pick.h"

#include <string.h>

static gconv_status copy_filter(const gconv_filter *from, gconv_filter *to) {
  gconv_filter copy = *from;
  size_t bytes = gconv_checked_product(3, (size_t[]){(size_t)from->rows, (size_t)from->columns, sizeof *from->taps});
  copy.name = strdup(from->name ? from->name : "filter");
  copy.taps = bytes == SIZE_MAX ? NULL : malloc(bytes);
  if (!copy.name || !copy.taps) {
    free(copy.name);
    free(copy.taps);
    return gconv_fail(GCONV_NO_MEMORY, "no memory for a filter of %d x %d", from->rows, from->columns);
  }
  memcpy(copy.taps, from->taps, bytes);
  for (size_t i = 0; i < bytes / sizeof *copy.taps && !from->marked; i++)
    copy.taps[i] += 0.0f; /* -0 becomes 0 */
  *to = copy;
  return GCONV_OK;
}

static gconv_status copy_filters(const gconv_filters *from, gconv_filters *to) {
  GCONV_NEW(to->items, from->count, "no memory for %zu filters", from->count);
  for (; to->count < from->count; to->count++) {
    GCONV_TRY(copy_filter(&from->items[to->count], &to->items[to->count]));
  }
  return GCONV_OK;
}

static int32_t larger(int32_t a, int32_t b) {
  return a > b ? a : b;
}

/* Puts a filter into a larger frame, so that its anchor is at the given place. The places around the filter are no taps. */
static gconv_status embed_filter(gconv_filter *filter, int32_t rows, int32_t columns, int32_t anchor_row,
                                 int32_t anchor_column) {
  const size_t count = (size_t)rows * (size_t)columns; /* at most MOST_FRAMED_TAPS */
  float *taps = malloc(count * sizeof *taps);
  GCONV_NEED_MEMORY(taps, "no memory for a filter of %d x %d", rows, columns);
  for (size_t i = 0; i < count; i++)
    taps[i] = -0.0f;
  int32_t top = anchor_row - filter->anchor_row, left = anchor_column - filter->anchor_column;
  for (int32_t r = 0; r < filter->rows; r++)
    memcpy(taps + (size_t)(top + r) * (size_t)columns + left, filter->taps + (size_t)r * (size_t)filter->columns,
           (size_t)filter->columns * sizeof *taps);
  free(filter->taps);
  filter->taps = taps;
  filter->rows = rows;
  filter->columns = columns;
  filter->anchor_row = anchor_row;
  filter->anchor_column = anchor_column;
  return GCONV_OK;
}

/* The most taps that filters may have together in one frame. A column and a row of 20000 taps each would take 3.2 GB. */
enum { MOST_FRAMED_TAPS = 1 << 24 };

static gconv_status check_frame(const gconv_filters *filters, int64_t rows, int64_t columns) {
  const size_t factors[] = {(size_t)rows, (size_t)columns, filters->count};
  if (gconv_checked_product(3, factors) <= MOST_FRAMED_TAPS)
    return GCONV_OK;
  return gconv_fail(
      GCONV_TOO_LARGE,
      "filters that are combined get one frame: %zu of %lld x %lld taps are more than the %d that are allowed: "
      "combine filters of similar sizes",
      filters->count, (long long)rows, (long long)columns, MOST_FRAMED_TAPS);
}

/* Gives all filters one size and one anchor: the smallest frame that holds each filter. */
static gconv_status align_filters(gconv_filters *filters) {
  int32_t above = 0, below = 0, before = 0, behind = 0;
  for (size_t k = 0; k < filters->count; k++) {
    const gconv_filter *filter = &filters->items[k];
    above = larger(above, filter->anchor_row);
    below = larger(below, filter->rows - filter->anchor_row);
    before = larger(before, filter->anchor_column);
    behind = larger(behind, filter->columns - filter->anchor_column);
  }
  GCONV_TRY(check_frame(filters, (int64_t)above + below, (int64_t)before + behind));
  for (size_t k = 0; k < filters->count; k++)
    GCONV_TRY(embed_filter(&filters->items[k], above + below, before + behind, above, before));
  return GCONV_OK;
}

/* ---- The operation ---- */

static void free_operation(gconv_operation *base) {
  gconv_filter_operation *operation = (gconv_filter_operation *)base;
  gconv_filters_free(&operation->filters);
  free((char *)operation->options.algorithm); /* the operation's own copies */
  free((char *)operation->options.without);
  free(operation);
}

static size_t count_outputs(const gconv_operation *base) {
  const gconv_filter_operation *operation = (const gconv_filter_operation *)base;
  return operation->options.combine == GCONV_COMBINE_NONE ? operation->filters.count : 1;
}

/* Returns the bytes of the filters: of the copies, of the originals, and of the weights of an outline. */
static double held_bytes(const gconv_operation *base) {
  const gconv_filters *filters = &((const gconv_filter_operation *)base)->filters;
  double taps = 0;
  for (size_t k = 0; k < filters->count; k++)
    taps += (double)filters->items[k].rows * filters->items[k].columns;
  return 3 * taps * sizeof(float);
}

static int host_stages(const gconv_operation *base) {
  const gconv_options *options = &((const gconv_filter_operation *)base)->options;
  bool after = options->linear || options->alpha == GCONV_ALPHA_PREMULTIPLY || options->range == GCONV_RANGE_MINMAX ||
               (options->alpha == GCONV_ALPHA_FILTER && options->range != GCONV_RANGE_CLAMP);
  return (options->gray || options->linear || options->mix ? GCONV_HOST_BEFORE : 0) | (after ? GCONV_HOST_AFTER : 0);
}

static const char *lacks(const gconv_operation *base, const char *device) {
  const char *name = ((const gconv_filter_operation *)base)->options.algorithm;
  return gconv_device_has(device, name, gconv_algorithm_at) ? NULL : name;
}

/* Returns whether all algorithms of this name, on any device, are of the exact family. */
static bool is_exact(const char *name) {
  const gconv_algorithm_info *algorithm;
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (strcmp(algorithm->name, name) == 0 && !algorithm->exact)
      return false;
  return true;
}

/* Returns a list, separated by commas, of the algorithms that the user left out and of all that are not exact. NULL: no
 * memory. */
static char *name_inexact(const char *without) {
  const gconv_algorithm_info *algorithm;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out)
    return NULL;
  fputs(without, out);
  for (size_t i = 0; (algorithm = gconv_algorithm_at(i)); i++)
    if (!is_exact(algorithm->name))
      fprintf(out, "%s%s", ftell(out) > 0 ? "," : "", algorithm->name);
  gconv_close_text(out, &text);
  return text;
}

static gconv_status keep_exact(const gconv_operation *base, gconv_operation **exact) {
  const gconv_filter_operation *operation = (const gconv_filter_operation *)base;
  gconv_options options = operation->options;
  GCONV_FREED char *without = name_inexact(options.without);
  GCONV_NEED_MEMORY(without, "no memory for an operation");
  options.without = without;
  return gconv_operation_plain(&operation->filters, &options, exact);
}

static const gconv_operation_type filters_type = {.name = "filters",
                                                  .free = free_operation,
                                                  .outputs = count_outputs,
                                                  .held_bytes = held_bytes,
                                                  .plan_type = &gconv_filter_plan_type,
                                                  .minds_nodata = true,
                                                  .fill_plan = gconv_filter_plan_fill,
                                                  .lacks = lacks,
                                                  .keep_exact = keep_exact,
                                                  .host_stages = host_stages,
                                                  .repeats = true};

static gconv_status fill(const gconv_filters *filters, const gconv_options *options, gconv_filter_operation *operation) {
  operation->options = *options;
  operation->options.algorithm = strdup(options->algorithm);
  operation->options.without = strdup(options->without ? options->without : "");
  GCONV_NEED_MEMORY(operation->options.algorithm && operation->options.without, "no memory for %zu filters", filters->count);
  GCONV_TRY(copy_filters(filters, &operation->filters));
  if (options->combine == GCONV_COMBINE_NONE || gconv_filters_have_one_frame(filters))
    return GCONV_OK;
  if (options->padding != GCONV_PADDING_SAME)
    return gconv_fail(GCONV_BAD_ARGUMENT, "filters of different sizes or anchors can be combined with padding same only");
  return align_filters(&operation->filters);
}

gconv_status gconv_operation_plain(const gconv_filters *filters, const gconv_options *options, gconv_operation **result) {
  gconv_filter_operation *operation;
  GCONV_NEW(operation, 1, "no memory for %zu filters", filters->count);
  operation->base = (gconv_operation){&filters_type, 1, NULL};
  gconv_status status = fill(filters, options, operation);
  if (status != GCONV_OK) {
    free_operation(&operation->base);
    return status;
  }
  *result = &operation->base;
  return GCONV_OK;
}
