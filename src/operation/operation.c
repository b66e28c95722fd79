/* SPDX-License-Identifier: MIT */
/* Makes and frees plans, and counts the users of an operation: the caller that made it, and its plans. */
#include "operation/operation.h"
#include "base/arguments.h"
#include "base/nodata.h"
#include "base/status.h"
#include "device/device.h"
#include "operation/strided.h"

#include <stdlib.h>

size_t gconv_operation_outputs(const gconv_operation *operation) {
  if (operation->type->outputs)
    return operation->type->outputs(operation);
  return operation->inner ? gconv_operation_outputs(operation->inner) : 1;
}

const char *gconv_operation_lacks(const gconv_operation *operation, const char *device) {
  if (operation->type->lacks)
    return operation->type->lacks(operation, device);
  return operation->inner ? gconv_operation_lacks(operation->inner, device) : NULL;
}

gconv_status gconv_operation_keep_exact(const gconv_operation *operation, gconv_operation **exact) {
  *exact = NULL;
  return operation->type->keep_exact ? operation->type->keep_exact(operation, exact) : GCONV_OK;
}

double gconv_operation_held_bytes(const gconv_operation *operation) {
  return operation->type->held_bytes ? operation->type->held_bytes(operation) : 0;
}

void gconv_operation_free(gconv_operation *operation) {
  if (!operation || __atomic_sub_fetch(&operation->users, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  gconv_operation_free(operation->inner);
  operation->type->free(operation);
}

gconv_operation *gconv_operation_share(const gconv_operation *operation) {
  gconv_operation *shared = (gconv_operation *)operation;
  __atomic_add_fetch(&shared->users, 1, __ATOMIC_RELAXED);
  return shared;
}

static void free_staged(gconv_plan *plan) {
#ifdef GCONV_WITH_CUDA
  for (size_t i = 0; i <= plan->output_count && plan->staged; i++)
    if (plan->staged[i])
      gconv_strided_free_cuda(plan->device->index, plan->staged[i]);
#endif
  free(plan->staged);
}

static void discard(gconv_plan *plan) {
  for (gconv_plan *spare = plan->spare, *next; spare; spare = next) {
    next = spare->spare;
    spare->spare = NULL;
    gconv_plan_free(spare);
  }
  pthread_cond_destroy(&plan->idle);
  pthread_mutex_destroy(&plan->lock);
  free(plan->outputs);
  free(plan->arrays);
  free(plan->losses);
  free_staged(plan);
  gconv_plan_free(plan->inner);
  if (plan->type->free)
    plan->type->free(plan);
  else
    free(plan);
}

size_t gconv_plan_passes(const gconv_plan *plan) {
  return plan->type->passes ? plan->type->passes(plan) : 1;
}

static void warn_of_nodata(const gconv_image *like, const gconv_operation *operation) {
  char text[GCONV_NODATA_BYTES];
  gconv_warn_once("no data", "%s: the number %s, by which the file names samples of no data, counts as any other",
                  operation->type->name, gconv_nodata_write(like->nodata, text));
}

gconv_status gconv_plan_make(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan **result) {
  if (order->rows < 0)
    return gconv_fail(GCONV_BAD_ARGUMENT, "a plan for %d rows at a time: give 0 for whole images", order->rows);
  GCONV_TRY(gconv_check_source(order->like, "the image of a plan"));
  if (order->like->has_nodata && !operation->type->minds_nodata && order->extent == GCONV_PLAN_WHOLE)
    warn_of_nodata(order->like, operation);
  gconv_plan *plan = calloc(1, operation->type->plan_type->bytes);
  GCONV_NEED_MEMORY(plan, "no memory for a plan");
  plan->type = operation->type->plan_type;
  plan->device = order->device;
  plan->like = gconv_header_of(order->like);
  plan->kept = order->kept;
  plan->rows = order->rows;
  pthread_mutex_init(&plan->lock, NULL);
  pthread_cond_init(&plan->idle, NULL);
  gconv_status status = operation->type->fill_plan(order, operation, plan);
  if (status == GCONV_OK && !(plan->arrays = calloc(plan->output_count, sizeof *plan->arrays)))
    status = gconv_fail(GCONV_NO_MEMORY, "no memory for a plan");
  if (status != GCONV_OK) {
    discard(plan);
    return status;
  }
  plan->operation = gconv_operation_share(operation);
  if (gconv_plan_passes(plan) == 1)
    plan->pass.end = plan->outputs[0].height;
  *result = plan;
  return GCONV_OK;
}

gconv_status gconv_plan_wrap(const gconv_plan_order *order, const gconv_operation *operation, gconv_plan *plan) {
  GCONV_TRY(gconv_plan_make(order, operation->inner, &plan->inner));
  plan->bleeds = plan->inner->bleeds;
  plan->info = plan->inner->info;
  plan->output_count = 1;
  GCONV_NEW(plan->outputs, 1, "no memory for a plan");
  plan->outputs[0] = plan->inner->outputs[0];
  return GCONV_OK;
}

static gconv_status create(gconv_device *device, const gconv_image *like, const gconv_operation *operation, int32_t rows,
                           gconv_plan_extent extent, gconv_plan **plan) {
  return gconv_plan_make(&(gconv_plan_order){device, like, like->type, rows, extent}, operation, plan);
}

gconv_status gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *operation, int32_t rows,
                               gconv_plan **plan) {
  GCONV_NEED(device, like, operation, plan);
  return create(device, like, operation, rows, GCONV_PLAN_WHOLE, plan);
}

gconv_status gconv_plan_outline(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                int32_t rows, gconv_plan **plan) {
  return create(device, like, operation, rows, GCONV_PLAN_OUTLINE, plan);
}

gconv_status gconv_operation_find_need(gconv_device *device, const gconv_image *like, const gconv_operation *operation,
                                       int32_t rows, gconv_need *need) {
  gconv_plan *plan = NULL;
  if (create(device, like, operation, rows, GCONV_PLAN_OUTLINE, &plan) != GCONV_OK) /* the device may lack the algorithm */
    GCONV_TRY(create(device, like, operation, rows, GCONV_PLAN_OUTLINE_OF_ANY, &plan));
  *need = (gconv_need){0};
  plan->type->find_need(plan, need);
  gconv_plan_free(plan);
  return GCONV_OK;
}

void gconv_plan_free(gconv_plan *plan) {
  if (!plan)
    return;
  gconv_operation *operation = (gconv_operation *)plan->operation;
  discard(plan);
  gconv_operation_free(operation);
}
