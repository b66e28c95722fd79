/* SPDX-License-Identifier: MIT */
/*
 * The plans of a run. A worker takes a plan for a group, and gives it back. Then the plan is idle, and any worker may take
 * it for its next group of that shape. A limited number of idle plans is kept. If a GPU has no memory for a plan, idle plans
 * are freed, or the worker waits until others give their plans back. So a group fails only if the memory of the GPU is too
 * small for it alone.
 */
#pragma once

#include "operation/operation.h"

typedef struct gconv_plans gconv_plans;
/* Keeps up to `most` idle plans. NULL without memory. */
gconv_plans *gconv_plans_create(size_t most);
/* Frees all plans; no worker may still have one. NULL is allowed. */
void gconv_plans_free(gconv_plans *plans);

/* The arguments of gconv_plan_create(), from which plans are made. */
typedef struct gconv_plan_request {
  gconv_device *device;
  const gconv_image *like;
  const gconv_operation *operation;
  int32_t rows;
  bool waits; /* wait for a GPU's memory while other workers have plans there; else GCONV_NO_MEMORY at once */
} gconv_plan_request;

/* Takes an idle plan, or makes one: then *fresh is true. If plans of the operation keep all threads busy, and another worker
 * has one of this shape, waits for it. */
gconv_status gconv_plans_take(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan, bool *fresh);
/* Gives a plan back. NULL is allowed. */
void gconv_plans_give(gconv_plans *plans, gconv_plan *plan);
/* Frees all idle plans, when memory is short. */
void gconv_plans_clear(gconv_plans *plans);
