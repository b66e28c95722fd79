/* SPDX-License-Identifier: MIT */
/* Lets several threads execute a plan at once: each execution gets a plan of its own, with its own workspace. */
#include "operation/operation.h"

/* Returns whether further plans like this can be made: nothing in it must last from one execution to the next. */
static bool repeats(const gconv_plan *plan) {
  return plan->operation->type->repeats && !plan->losses && gconv_plan_passes(plan) == 1;
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
  }
  plan->busy = true;
  pthread_mutex_unlock(&plan->lock);
  const gconv_plan_order order = {plan->device, &plan->like, plan->kept, plan->rows, GCONV_PLAN_WHOLE};
  return *entered ? GCONV_OK : gconv_plan_make(&order, plan->operation, entered);
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
