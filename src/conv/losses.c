/* SPDX-License-Identifier: MIT */
/* Watches plain filters: estimates how many responses were clamped (operation/losses.h). */
#include "operation/losses.h"
#include "conv/plan.h"
#include "conv/verify.h"
#include "operation/verify.h"

#include <math.h>

/* The most multiply-adds at black places, and as many at white places: in a row, and in all rows of an output. A row may
 * have at most MOST_COMPUTED responses of each kind, and may have one of each even if a filter has more taps than that. This
 * takes well below 1 ms, except for filters of thousands of taps. */
enum { ROW_WORK = 4096, ALL_WORK = 1 << 18, MOST_COMPUTED = 16 };

/* A row of places in an output. */
typedef struct place_row {
  const gconv_expected *expected;
  const gconv_scope *scope;  /* NULL: the whole output */
  const gconv_image *stored; /* rows of the output, from `first` on */
  int32_t first, frame, y;
  int32_t left, width; /* columns of the scope, or of the whole output */
  int columns;
  int32_t colours;
} place_row;

static int64_t column_of(const place_row *row, int place) {
  return row->left + gconv_loss_column(row->width, row->columns, place, row->y);
}

static int32_t channel_of(const place_row *row, int place) {
  return (int32_t)((row->y + place) % row->colours);
}

static double stored_at(const void *context, int place) {
  const place_row *row = context;
  return gconv_sample_at(row->stored, row->frame, channel_of(row, place), row->y - row->first, column_of(row, place));
}

static double response_at(const void *context, int place) {
  const place_row *row = context;
  return gconv_expected_response(row->expected, row->frame, row->y, column_of(row, place), channel_of(row, place));
}

static bool counts(const void *context, int place) {
  const place_row *row = context;
  return gconv_scope_weight(row->scope, row->y, column_of(row, place)) > 0;
}

static int at_most(double value, int most) {
  return value < 1 ? 1 : value < most ? (int)value : most;
}

/* Looks at the places in rows first .. first + count - 1 of an output. */
static void watch_output(const gconv_expected *expected, const gconv_scope *scope, const gconv_image *stored, int32_t first,
                         int32_t count, double taps, int columns, gconv_losses *losses) {
  const gconv_image *whole = gconv_expected_output(expected);
  int32_t top = scope ? scope->top : 0, height = (scope ? scope->bottom : whole->height) - top;
  int64_t all = (int64_t)whole->frames * height;
  int rows = at_most(ALL_WORK / taps, GCONV_LOSS_ROWS);
  rows = all < rows ? (int)all : rows;
  place_row row = {.expected = expected,
                   .scope = scope,
                   .stored = stored,
                   .first = first,
                   .left = scope ? scope->left : 0,
                   .width = scope ? scope->right - scope->left : whole->width,
                   .colours = whole->channels - whole->alpha};
  row.columns = row.width < columns ? row.width : columns;
  gconv_loss_row_source source = {.places = row.columns,
                                  .most = at_most(ROW_WORK / taps, MOST_COMPUTED),
                                  .white = (double)gconv_white(whole->type),
                                  .stored = stored ? stored_at : NULL,
                                  .response = response_at,
                                  .counts = counts,
                                  .context = &row};
  for (int i = 0; i < rows; i++) {
    int64_t at = gconv_loss_row(all, rows, i);
    row.frame = (int32_t)(at / height);
    row.y = top + (int32_t)(at % height);
    if (row.y >= first && row.y < first + count)
      gconv_losses_add_row(&source, losses);
  }
}

/* Returns whether samples of the outputs can have been clamped, and the plan is watched. */
static bool can_lose(const gconv_filter_plan *plan) {
  return plan->base.losses && plan->options.output_type <= GCONV_U16 && plan->options.range != GCONV_RANGE_MINMAX &&
         plan->options.range != GCONV_RANGE_WRAP;
}

static double sum_of(const gconv_filter *filter) {
  gconv_filter_analysis found = {0};
  gconv_filter_analyze(filter, &found);
  return found.sum;
}

/* Returns the factor by which output `output` multiplies areas of one colour. If responses of several filters are combined,
 * it is the largest factor, or, for combine sum, the sum of the factors. */
static double gain_of(const gconv_filter_plan *plan, size_t output) {
  const gconv_filters *filters = plan->filters;
  double most = 0, all = 0;
  bool one = plan->options.combine == GCONV_COMBINE_NONE;
  for (size_t k = one ? output : 0; k < (one ? output + 1 : filters->count); k++) {
    double sum = sum_of(&filters->items[k]);
    most = fabs(sum) > fabs(most) ? sum : most;
    all += sum;
  }
  return plan->options.scale * (plan->options.combine == GCONV_COMBINE_SUM ? all : most);
}

void gconv_filter_watch(const gconv_filter_plan *plan, const gconv_image *in, const gconv_holes *holes, int32_t in_row,
                        const gconv_image *outputs, int32_t first) {
  const size_t count = plan->base.output_count;
  int columns = count < GCONV_LOSS_COLUMNS / 8 ? GCONV_LOSS_COLUMNS / (int)count : 8;
  for (size_t i = 0; i < plan->pass_count && can_lose(plan); i++) {
    const gconv_pass *pass = &plan->passes[i];
    for (size_t k = 0; k < gconv_pass_outputs(pass); k++) {
      size_t output = pass->first_output + k;
      const gconv_image *whole = &plan->base.outputs[output], *stored = outputs ? &outputs[output] : NULL;
      double taps =
          (double)gconv_tap_count(&pass->problem) / (gconv_is_combined(&pass->problem) ? 1 : pass->problem.filters);
      gconv_expected *expected = gconv_expected_make(plan, pass, in, holes, in_row, (int32_t)k);
      if (expected && whole->channels > whole->alpha)
        watch_output(expected, plan->base.scope, stored, first, stored ? stored->height : whole->height, taps + 1, columns,
                     &plan->base.losses[output]);
      gconv_expected_free(expected);
      plan->base.losses[output].gain = gain_of(plan, output);
      plan->base.losses[output].scale = plan->options.scale;
      plan->base.losses[output].is_signed = plan->options.range == GCONV_RANGE_SIGNED;
      plan->base.losses[output].in_scope = plan->base.scope != NULL;
    }
  }
}
