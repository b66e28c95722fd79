/* SPDX-License-Identifier: MIT */
/*
 * What is lost when responses become integer samples: those below black and above white are clamped. A plan that is watched
 * estimates how many, from places that are spread over each output. At a place where the sample is black or white, the
 * response is computed once more in float64, which tells whether it was clamped. So the watch works for every algorithm and
 * device, and changes no kernel. It costs some 2,000 places an output; of large filters, fewer. The places follow from the
 * shape of the output alone: the estimate is the same for any number of threads, strips and devices of the exact family.
 */
#pragma once

#include "base/both.h"
#include "operation/operation.h"

GCONV_C_BEGIN

/* The sums of an output. */
struct gconv_losses {
  double places;       /* that were looked at */
  double black, white; /* of those, at which the sample is black, or white */
  double below, above; /* estimates: at which the response was clamped to black, or to white */
  double low, high;    /* the smallest and largest response that was computed; white is 1 */
  double gain;         /* what even areas are multiplied by; 0 of filters that find edges, and where it is not known ... */
  double scale;        /* ... with this gconv_options.scale */
  bool is_signed;      /* the range is signed: a response below -1 becomes black */
  bool in_scope;       /* the operation counts in a part of the output, and only places there are looked at */
};

enum { GCONV_LOSS_ROWS = 32, GCONV_LOSS_COLUMNS = 64 };

/* Begins to watch the outputs of all executions to come. GCONV_NO_MEMORY. */
gconv_status gconv_plan_watch(gconv_plan *plan);

/* Lets the results of a plan count in that scope alone: results outside are neither watched nor compared with float64. The
 * caller keeps the scope as long as the plan. A plan that has a scope already keeps it. */
void gconv_plan_set_scope(gconv_plan *plan, gconv_scope *scope);

/* Whether the output is of one colour, black or white, although its responses differ. False if in_scope. */
bool gconv_losses_are_of_one_colour(const gconv_losses *losses);

/* Makes *worst the other if that lost more. */
void gconv_losses_keep_worst(gconv_losses *worst, const gconv_losses *other);

/* Returns the sums of the output that lost most since the last call, and begins anew; all 0 if nothing was watched. */
gconv_losses gconv_plan_take_losses(gconv_plan *plan);

/* ---- For plans that are watched: they have plan->losses ---- */

/* Row number `number` of `rows` (at most GCONV_LOSS_ROWS) that are spread over `all`. */
int64_t gconv_loss_row(int64_t all, int rows, int number);

/* Column number `number` of `columns` in row `row`, which are spread over `width` at distances that differ. */
int64_t gconv_loss_column(int64_t width, int columns, int number, int64_t row);

/* The places of a row, whose responses are known only where somebody asks. */
typedef struct gconv_loss_row_source {
  int places; /* at most GCONV_LOSS_COLUMNS */
  int most;   /* responses to compute at most: so many at black places, and as many at white ones */
  double white;
  double (*stored)(const void *context, int place);   /* the sample, a level; NULL: it is not known */
  double (*response)(const void *context, int place); /* where white is 1, neither clamped nor rounded */
  bool (*counts)(const void *context, int place);     /* NULL: all places do */
  const void *context;
} gconv_loss_row_source;

/* Adds a row to the sums. */
void gconv_losses_add_row(const gconv_loss_row_source *row, gconv_losses *losses);

GCONV_C_END
