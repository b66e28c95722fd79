/* SPDX-License-Identifier: MIT */
/*
 * The plans of a run. A worker takes one for a group, alone, and gives it back: then it is idle, for the next group of that
 * shape, whoever takes that. Idle plans beyond a number are freed, the oldest first. Whoever finds no memory for a plan on a
 * GPU has idle ones freed, or waits for others to give theirs: so no more groups are on a GPU at a time than it has memory
 * for, and none fails as long as there is memory for it alone.
 */
#ifndef GCONV_BATCH_PLANS_H
#define GCONV_BATCH_PLANS_H

#include "operation/operation.h"

typedef struct gconv_plans gconv_plans;

/* Keeps up to `most` idle plans. NULL without memory. */
gconv_plans *gconv_plans_create(size_t most);
/* Frees all plans; no worker may still have one. NULL is allowed. */
void gconv_plans_free(gconv_plans *plans);

/* What plans are made of: gconv_plan_create(). */
typedef struct gconv_plan_request {
  gconv_device *device;
  const gconv_image *like;
  const gconv_operation *operation;
  int32_t rows;
  bool waits; /* for memory of a GPU, until nobody else has a plan there; else GCONV_NO_MEMORY at once */
} gconv_plan_request;

/* Takes an idle plan, or makes one, which *fresh tells. If a plan of the operation keeps all threads busy, and another
 * worker has one of this shape, waits for that. */
gconv_status gconv_plans_take(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan, bool *fresh);

/* Gives a plan back. NULL is allowed. */
void gconv_plans_give(gconv_plans *plans, gconv_plan *plan);

/* Frees all idle plans, for those who want memory. */
void gconv_plans_clear(gconv_plans *plans);

#endif
