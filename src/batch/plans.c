/* SPDX-License-Identifier: MIT */
#include "batch/plans.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A plan that was left. */
struct left {
  gconv_plan *plan;
  struct left *next;
};

struct gconv_plans {
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  struct left *left;
  size_t had;               /* plans of GPUs that workers have or are making */
  uint64_t begun;           /* attempts to make one */
  uint64_t returned;        /* plans that workers have dropped or left */
  uint64_t arrived, served; /* those who wait */
};

gconv_plans *gconv_plans_create(void) {
  gconv_plans *plans = calloc(1, sizeof *plans);
  if (!plans)
    return NULL;
  pthread_mutex_init(&plans->lock, NULL);
  pthread_cond_init(&plans->changed, NULL);
  return plans;
}

static void free_all(struct left *left) {
  for (struct left *next; left; left = next) {
    next = left->next;
    gconv_plan_free(left->plan);
    free(left);
  }
}

void gconv_plans_free(gconv_plans *plans) {
  if (!plans)
    return;
  free_all(plans->left);
  pthread_cond_destroy(&plans->changed);
  pthread_mutex_destroy(&plans->lock);
  free(plans);
}

/* ---- Giving back --------------------------------------------------------------------------------------------------- */

static bool is_of_gpu(const gconv_plan *plan) {
  return strcmp(gconv_plan_get_info(plan)->device, "cpu") != 0;
}

/* The caller has one less; `left` (NULL: it was freed) is anybody's. */
static void note_return(gconv_plans *plans, struct left *left) {
  pthread_mutex_lock(&plans->lock);
  if (left) {
    left->next = plans->left;
    plans->left = left;
  }
  plans->had--;
  plans->returned++;
  pthread_cond_broadcast(&plans->changed);
  pthread_mutex_unlock(&plans->lock);
}

void gconv_plans_drop(gconv_plans *plans, gconv_plan *plan) {
  if (!plan)
    return;
  bool counts = is_of_gpu(plan);
  gconv_plan_free(plan);
  if (counts)
    note_return(plans, NULL);
}

void gconv_plans_leave(gconv_plans *plans, gconv_plan *plan) {
  struct left *left = plan && is_of_gpu(plan) ? malloc(sizeof *left) : NULL;
  if (!left) {
    gconv_plans_drop(plans, plan);
    return;
  }
  left->plan = plan;
  note_return(plans, left);
}

/* ---- Making -------------------------------------------------------------------------------------------------------- */

/* Under the lock: takes a plan for such images on this device out of those that were left. */
static gconv_plan *find(gconv_plans *plans, const gconv_plan_request *request) {
  const char *device = gconv_device_get_info(request->device)->name;
  for (struct left **at = &plans->left; *at; at = &(*at)->next) {
    struct left *found = *at;
    if (strcmp(gconv_plan_get_info(found->plan)->device, device) != 0 || !gconv_plan_fits(found->plan, request->like))
      continue;
    gconv_plan *plan = found->plan;
    *at = found->next;
    free(found);
    return plan;
  }
  return NULL;
}

/* Under the lock, which is let go meanwhile: as gconv_plan_create(). *alone: nobody else had or made one. */
static gconv_status make(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan, bool *alone) {
  uint64_t mine = ++plans->begun;
  *alone = plans->had++ == 0;
  pthread_mutex_unlock(&plans->lock);
  gconv_status status = gconv_plan_create(request->device, request->like, request->filters, request->options, plan);
  bool counts = status == GCONV_OK && is_of_gpu(*plan);
  pthread_mutex_lock(&plans->lock);
  *alone = *alone && plans->begun == mine;
  if (!counts) {
    plans->had--;
    pthread_cond_broadcast(&plans->changed);
  }
  return status;
}

/* Under the lock, which is let go meanwhile: one that was left, or a new one, for which others that were left may go. */
static gconv_status take(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan, bool *alone) {
  gconv_plan *found = find(plans, request);
  if (found) {
    plans->had++;
    *plan = found;
    return GCONV_OK;
  }
  gconv_status status = make(plans, request, plan, alone);
  if (status != GCONV_NO_MEMORY || !plans->left)
    return status;
  struct left *left = plans->left;
  plans->left = NULL;
  pthread_mutex_unlock(&plans->lock);
  free_all(left);
  pthread_mutex_lock(&plans->lock);
  return make(plans, request, plan, alone);
}

gconv_status gconv_plans_take(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan) {
  bool alone;
  pthread_mutex_lock(&plans->lock);
  bool waits = plans->arrived != plans->served && strcmp(gconv_device_get_info(request->device)->name, "cpu") != 0;
  gconv_status status = waits ? gconv_set_error(GCONV_NO_MEMORY, "other images wait for memory of this GPU")
                              : take(plans, request, plan, &alone);
  pthread_mutex_unlock(&plans->lock);
  return status;
}

gconv_status gconv_plans_wait(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan) {
  gconv_status status;
  bool alone;
  pthread_mutex_lock(&plans->lock);
  uint64_t place = plans->arrived++;
  while (plans->served != place)
    pthread_cond_wait(&plans->changed, &plans->lock);
  for (;;) {
    uint64_t returned = plans->returned;
    status = take(plans, request, plan, &alone);
    if (status != GCONV_NO_MEMORY || alone)
      break;
    while (plans->had > 0 && plans->returned == returned)
      pthread_cond_wait(&plans->changed, &plans->lock);
  }
  plans->served++;
  pthread_cond_broadcast(&plans->changed);
  pthread_mutex_unlock(&plans->lock);
  return status;
}

bool gconv_plans_are_awaited(gconv_plans *plans) {
  pthread_mutex_lock(&plans->lock);
  bool awaited = plans->arrived != plans->served;
  pthread_mutex_unlock(&plans->lock);
  return awaited;
}
