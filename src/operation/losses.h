/* SPDX-License-Identifier: MIT */
/*
 * Losses: when responses become integer samples, responses below black and above white are clamped. A plan that is watched
 * estimates how many, from places that are spread over each output. At a place where the sample is black or white, the
 * response is computed again in float64, which shows whether it was clamped. So the watch works for every algorithm and
 * device, and changes no kernel. It looks at some 2,000 places of an output; with large filters, at fewer. The places follow
 * from the shape of the output alone. So, with the exact family, the estimate depends neither on threads, strips nor
 * devices.
 */
#pragma once

#include "base/both.h"
#include "operation/operation.h"

GCONV_C_BEGIN

/* The sums of an output. */
struct gconv_losses {
  double places;       /* places that were looked at */
  double black, white; /* places where the sample is black; where it is white */
  double below, above; /* estimates: places where the response was clamped to black; to white */
  double low, high;    /* the smallest and largest response that was computed; white is 1 */
  double gain;         /* the factor by which flat areas become brighter; 0: the filter finds edges, or it is not known */
  double scale;        /* gconv_options.scale, which is a part of `gain` */
  bool is_signed;      /* the range is signed: a response below -1 becomes black */
  bool in_scope;       /* only places in the plan's scope were counted */
};

enum { GCONV_LOSS_ROWS = 32, GCONV_LOSS_COLUMNS = 64 };

/* Begins to watch the outputs of all later executions. GCONV_NO_MEMORY. */
gconv_status gconv_plan_watch(gconv_plan *plan);

/* Limits a plan to `scope`: results outside are neither watched nor compared with float64. The scope must live as long as
 * the plan. A plan that has a scope already keeps it. */
void gconv_plan_set_scope(gconv_plan *plan, gconv_scope *scope);

/* Returns whether the output is all black or all white although its responses differ. False if in_scope. */
bool gconv_losses_are_of_one_colour(const gconv_losses *losses);

/* Copies *other to *worst if `other` lost more. */
void gconv_losses_keep_worst(gconv_losses *worst, const gconv_losses *other);

/* Returns the sums of the output that lost most since the last call, and resets all sums. All are 0 if nothing was watched.
 */
gconv_losses gconv_plan_take_losses(gconv_plan *plan);

/* ---- For plans that are watched: they have plan->losses ---- */

/* Returns row number `number` of `rows` rows (at most GCONV_LOSS_ROWS) that are spread over `all` rows. */
int64_t gconv_loss_row(int64_t all, int rows, int number);

/* Returns column number `number` of `columns` columns in row `row`, which are spread over `width` at different distances. */
int64_t gconv_loss_column(int64_t width, int columns, int number, int64_t row);

/* The places of a row. Their responses are computed on request. */
typedef struct gconv_loss_row_source {
  int places; /* at most GCONV_LOSS_COLUMNS */
  int most;   /* the most responses to compute at black places, and at white places */
  double white;
  double (*stored)(const void *context, int place);   /* returns the sample, a level; NULL: samples are unknown */
  double (*response)(const void *context, int place); /* returns the response, not clamped or rounded; white is 1 */
  bool (*counts)(const void *context, int place);     /* whether the place counts; NULL: all do */
  const void *context;
} gconv_loss_row_source;

/* Adds a row to the sums. */
void gconv_losses_add_row(const gconv_loss_row_source *row, gconv_losses *losses);

GCONV_C_END
