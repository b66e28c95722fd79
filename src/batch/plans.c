/* SPDX-License-Identifier: MIT */
#include "batch/plans.h"
#include "base/nodata.h"
#include "base/status.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A plan that a worker has or makes, or that is idle. The later an idle plan stands in the list, the longer it is idle. */
typedef struct entry {
  gconv_plan *plan; /* NULL while it is made */
  gconv_plan_request of;
  gconv_image like; /* a copy of *of.like, which belongs to the caller */
  bool idle;
  struct entry *next;
} entry;

struct gconv_plans {
  size_t most;          /* idle plans */
  pthread_mutex_t lock; /* guards all below */
  pthread_cond_t changed;
  entry *entries;
  size_t freeing;   /* plans that have left the list, but whose memory is not free yet */
  uint64_t clock;   /* how many plans were given back or freed */
  uint64_t arrived; /* how many times a worker has begun to wait for memory */
  uint64_t served;  /* how many of these waits have ended */
};

gconv_plans *gconv_plans_create(size_t most) {
  gconv_plans *plans = calloc(1, sizeof *plans);
  if (!plans)
    return NULL;
  plans->most = most;
  pthread_mutex_init(&plans->lock, NULL);
  pthread_cond_init(&plans->changed, NULL);
  return plans;
}

void gconv_plans_free(gconv_plans *plans) {
  if (!plans)
    return;
  gconv_plans_clear(plans);
  pthread_cond_destroy(&plans->changed);
  pthread_mutex_destroy(&plans->lock);
  free(plans);
}

/* ---- Entries, under the lock ---- */

static bool fits(const entry *e, const gconv_plan_request *request) {
  return e->of.device == request->device && e->of.operation == request->operation && e->of.rows == request->rows &&
         gconv_image_alike(&e->like, request->like);
}

static entry *add(gconv_plans *plans, const gconv_plan_request *request) {
  entry *e = calloc(1, sizeof *e);
  if (!e)
    return NULL;
  e->of = *request;
  e->like = gconv_header_of(request->like);
  e->next = plans->entries;
  plans->entries = e;
  return e;
}

static void unlink_entry(gconv_plans *plans, const entry *gone) {
  entry **at = &plans->entries;
  while (*at != gone)
    at = &(*at)->next;
  *at = gone->next;
  pthread_cond_broadcast(&plans->changed);
}

/* Takes out the oldest idle plan if there are more than `most` of them. Otherwise returns NULL. */
static entry *take_oldest(gconv_plans *plans, size_t most) {
  entry *oldest = NULL;
  size_t count = 0;
  for (entry *e = plans->entries; e; e = e->next) {
    count += e->idle;
    oldest = e->idle ? e : oldest;
  }
  if (count <= most)
    return NULL;
  unlink_entry(plans, oldest);
  return oldest;
}

/* Frees idle plans beyond `most`, the oldest first. Returns whether there were any. The lock is free meanwhile, as freeing
 * memory of a GPU waits for the work of the GPU. */
static bool shrink(gconv_plans *plans, size_t most) {
  bool any = false;
  for (entry *e; (e = take_oldest(plans, most)); any = true) {
    plans->freeing++;
    pthread_mutex_unlock(&plans->lock);
    gconv_plan_free(e->plan);
    free(e);
    pthread_mutex_lock(&plans->lock);
    plans->freeing--;
    plans->clock++;
    pthread_cond_broadcast(&plans->changed);
  }
  return any;
}

/* Returns whether other workers have, make or free plans of this GPU. */
static bool others_have(const gconv_plans *plans, const gconv_device *device) {
  if (plans->freeing > 0)
    return true;
  for (const entry *e = plans->entries; e; e = e->next)
    if (!e->idle && e->of.device == device)
      return true;
  return false;
}

/* ---- Taking ---- */

/* Returns an idle plan that fits, or NULL. If another worker has a plan that fits, and one plan of the operation keeps the
 * device busy (`shares`), waits for that plan. */
static entry *find(gconv_plans *plans, const gconv_plan_request *request) {
  for (bool busy = true; busy;) {
    busy = false;
    for (entry *e = plans->entries; e; e = e->next)
      if (fits(e, request)) {
        if (e->idle)
          return e;
        busy = request->operation->type->shares;
      }
    if (busy)
      pthread_cond_wait(&plans->changed, &plans->lock);
  }
  return NULL;
}

static gconv_status make(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan) {
  entry *e = add(plans, request);
  GCONV_NEED_MEMORY(e, "no memory for a plan");
  pthread_mutex_unlock(&plans->lock);
  gconv_status status = gconv_plan_create(request->device, request->like, request->operation, request->rows, plan);
  pthread_mutex_lock(&plans->lock);
  if (status == GCONV_OK) {
    e->plan = *plan;
  } else {
    unlink_entry(plans, e);
    free(e);
  }
  return status;
}

static gconv_status take(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan, bool *fresh) {
  entry *found = find(plans, request);
  *fresh = !found;
  if (found) {
    found->idle = false;
    *plan = found->plan;
    return GCONV_OK;
  }
  gconv_status status = make(plans, request, plan);
  return status == GCONV_NO_MEMORY && shrink(plans, 0) ? make(plans, request, plan) : status;
}

/* Takes a plan when there is memory, in the order of the calls. Fails if memory is too small even without other plans. */
static gconv_status wait_for_memory(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan, bool *fresh) {
  gconv_status status = GCONV_NO_MEMORY;
  uint64_t place = plans->arrived++;
  while (plans->served != place)
    pthread_cond_wait(&plans->changed, &plans->lock);
  for (bool more = true; more && status == GCONV_NO_MEMORY;) {
    more = others_have(plans, request->device);
    uint64_t clock = plans->clock;
    status = take(plans, request, plan, fresh);
    while (status == GCONV_NO_MEMORY && clock == plans->clock && others_have(plans, request->device))
      pthread_cond_wait(&plans->changed, &plans->lock);
  }
  plans->served++;
  pthread_cond_broadcast(&plans->changed);
  return status;
}

gconv_status gconv_plans_take(gconv_plans *plans, const gconv_plan_request *request, gconv_plan **plan, bool *fresh) {
  gconv_status status = GCONV_NO_MEMORY;
  pthread_mutex_lock(&plans->lock);
  bool gpu = strcmp(gconv_device_get_info(request->device)->name, "cpu") != 0;
  bool queue = gpu && plans->arrived != plans->served;
  if (queue)
    gconv_set_error(status, "other images wait for memory of this GPU");
  else
    status = take(plans, request, plan, fresh);
  if (status == GCONV_NO_MEMORY && gpu && request->waits)
    status = wait_for_memory(plans, request, plan, fresh);
  pthread_mutex_unlock(&plans->lock);
  return status;
}

/* ---- Giving back ---- */

void gconv_plans_give(gconv_plans *plans, gconv_plan *plan) {
  if (!plan)
    return;
  pthread_mutex_lock(&plans->lock);
  entry *e = plans->entries;
  while (e->plan != plan)
    e = e->next;
  unlink_entry(plans, e);
  e->next = plans->entries;
  plans->entries = e;
  e->idle = true;
  plans->clock++;
  shrink(plans, plans->most);
  pthread_mutex_unlock(&plans->lock);
}

void gconv_plans_clear(gconv_plans *plans) {
  pthread_mutex_lock(&plans->lock);
  shrink(plans, 0);
  pthread_mutex_unlock(&plans->lock);
}
