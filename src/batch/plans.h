/* SPDX-License-Identifier: MIT */
/*
 * The plans of a GPU that the workers of a run have and leave. What a worker has no use for any more is not freed but left
 * to the others: to free memory of a GPU is to wait for all that is at work there. Whoever has no memory for a plan takes a
 * fitting one of those, or has them freed, or waits for others to leave theirs: so no more images are on a GPU at a time
 * than it has memory for. Plans of a CPU go through here, too, and are none of that.
 */
#ifndef GCONV_BATCH_PLANS_H
#define GCONV_BATCH_PLANS_H

#include "gconv.h"

typedef struct gconv_plans gconv_plans;

/* NULL without memory. */
gconv_plans *gconv_plans_create(void);
/* Frees those that were left; nobody has any more. NULL is allowed. */
void gconv_plans_free(gconv_plans *plans);

/* What plans are made of: gconv_plan_create(). The filters and options of all in a run are the same for images that are
 * alike. */
typedef struct gconv_plan_request {
  gconv_device *device;
  const gconv_image *like;
  const gconv_filters *filters;
  const gconv_options *options;
} gconv_plan_request;

/* Takes a plan that was left, or makes one. GCONV_NO_MEMORY at once where there is none, or where others wait for it. */
gconv_status gconv_plans_take(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan);
/* Waits for memory in the order of the calls: GCONV_NO_MEMORY only if there is none though nobody else has a plan. The
 * caller must have none either. */
gconv_status gconv_plans_wait(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan);
/* Whether anybody waits: then who has a plan should leave it between two images. */
bool gconv_plans_are_awaited(gconv_plans *plans);

/* Frees a plan: its memory is wanted now. NULL is allowed, here and below. */
void gconv_plans_drop(gconv_plans *plans, gconv_plan *plan);
/* Leaves it to others. */
void gconv_plans_leave(gconv_plans *plans, gconv_plan *plan);

#endif
