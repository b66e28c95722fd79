/* SPDX-License-Identifier: MIT */
/* Lets several threads execute a plan at once: each execution gets a plan of its own, with its own workspace. */
#include "gconv_embed.h"
#include "operation/operation.h"

/* Returns whether equal plans can be made in addition: a plan must keep no state from one execution to the next. */
static bool repeats(const gconv_plan *plan) {
  return plan->operation->type->repeats && !plan->losses && gconv_plan_passes(plan) == 1;
}

/* Subtracts `count` from the number of plans that were made in addition. */
static void count_fewer(gconv_plan *plan, size_t count) {
  pthread_mutex_lock(&plan->lock);
  plan->made -= count;
  pthread_mutex_unlock(&plan->lock);
}

gconv_status gconv_plan_enter(gconv_plan *plan, bool itself, gconv_plan **entered) {
  *entered = plan;
  pthread_mutex_lock(&plan->lock);
  while (plan->busy && (itself || !repeats(plan)))
    pthread_cond_wait(&plan->idle, &plan->lock);
  if (plan->busy && plan->spare) {
    *entered = plan->spare;
    plan->spare = plan->spare->spare;
    (*entered)->spare = NULL;
  } else if (plan->busy) {
    *entered = NULL;
    plan->made++;
  }
  plan->busy = true;
  pthread_mutex_unlock(&plan->lock);
  if (*entered)
    return GCONV_OK;
  const gconv_plan_order order = {plan->device, &plan->like, plan->kept, plan->rows, GCONV_PLAN_WHOLE};
  const gconv_status status = gconv_plan_make(&order, plan->operation, entered);
  if (status != GCONV_OK)
    count_fewer(plan, 1);
  return status;
}

void gconv_plan_leave(gconv_plan *plan, gconv_plan *entered) {
  pthread_mutex_lock(&plan->lock);
  if (entered == plan) {
    plan->busy = false;
    pthread_cond_signal(&plan->idle);
  } else {
    entered->spare = plan->spare;
    plan->spare = entered;
  }
  pthread_mutex_unlock(&plan->lock);
}

/* Each plan that was made in addition holds as many bytes as the first. */
size_t gconv_plan_held_bytes(const gconv_plan *shared) {
  gconv_plan *plan = (gconv_plan *)(uintptr_t)shared; /* its lock changes */
  if (!plan || (!plan->type->held_bytes && !plan->inner))
    return 0;
  pthread_mutex_lock(&plan->lock);
  const size_t count = 1 + plan->made;
  pthread_mutex_unlock(&plan->lock);
  return count * (plan->type->held_bytes ? plan->type->held_bytes(plan) : gconv_plan_held_bytes(plan->inner));
}

void gconv_plan_trim(gconv_plan *plan) {
  if (!plan)
    return;
  pthread_mutex_lock(&plan->lock);
  gconv_plan *spare = plan->spare;
  plan->spare = NULL;
  pthread_mutex_unlock(&plan->lock);
  size_t count = 0;
  for (gconv_plan *one = spare; one; one = one->spare)
    count++;
  gconv_plan_free(spare); /* frees the whole list */
  count_fewer(plan, count);
}
