/* SPDX-License-Identifier: MIT */
/* The plans of a run (plans.h) on a GPU with memory for few of them, whatever the machine has: the linker leads the calls
 * that make and free plans here. */
#include "batch/plans.h"
#include "device/device.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- The GPU ---- */

static int room;            /* the plans that it has memory for */
static atomic_int made;     /* plans that it has */
static atomic_int made_not; /* plans that it had no memory for */
static gconv_device gpu = {.info = {.name = "cuda:0"}};
static const gconv_operation_type type = {.name = "nothing"};
static const gconv_operation operation = {.type = &type, .users = 1};

gconv_status __wrap_gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *of, int32_t rows,
                                      gconv_plan **plan);
void __wrap_gconv_plan_free(gconv_plan *plan);

gconv_status __wrap_gconv_plan_create(gconv_device *device, const gconv_image *like, const gconv_operation *of, int32_t rows,
                                      gconv_plan **plan) {
  (void)device, (void)like, (void)of, (void)rows;
  *plan = NULL;
  if (atomic_fetch_add(&made, 1) >= room) {
    atomic_fetch_sub(&made, 1);
    atomic_fetch_add(&made_not, 1);
    return GCONV_NO_MEMORY;
  }
  *plan = calloc(1, sizeof **plan);
  return *plan ? GCONV_OK : GCONV_IO_ERROR;
}

void __wrap_gconv_plan_free(gconv_plan *plan) {
  free(plan);
  atomic_fetch_sub(&made, 1);
}

/* ---- Those who take plans ---- */

typedef struct taker {
  gconv_plans *plans;
  int32_t width; /* of its images */
  gconv_status status;
  gconv_plan *plan;
} taker;

static gconv_status take(taker *t, bool waits) {
  const gconv_image like = {.type = GCONV_U8, .frames = 1, .height = 2, .width = t->width, .channels = 1};
  const gconv_plan_request request = {.device = &gpu, .like = &like, .operation = &operation, .waits = waits};
  bool fresh = false;
  return t->status = gconv_plans_take(t->plans, &request, &t->plan, &fresh);
}

static gconv_plans *begin(int plans) {
  room = plans;
  atomic_store(&made_not, 0);
  gconv_plans *made_plans = gconv_plans_create(2);
  assert_non_null(made_plans);
  return made_plans;
}

static void end(gconv_plans *plans) {
  gconv_plans_free(plans);
  assert_int_equal(atomic_load(&made), 0);
}

static void idle_plans_make_room(void **state) {
  (void)state;
  gconv_plans *plans = begin(1);
  taker one = {.plans = plans, .width = 1}, other = {.plans = plans, .width = 2};
  assert_int_equal(take(&one, true), GCONV_OK);
  gconv_plans_give(plans, one.plan);
  assert_int_equal(take(&other, false), GCONV_OK);
  assert_int_equal(atomic_load(&made), 1);
  gconv_plans_give(plans, other.plan);
  end(plans);
}

static void nobody_waits_for_nobody(void **state) {
  (void)state;
  gconv_plans *plans = begin(0);
  taker one = {.plans = plans, .width = 1};
  assert_int_equal(take(&one, true), GCONV_NO_MEMORY);
  end(plans);
}

/* ---- Turns ---- */

static atomic_int turns; /* taken so far */

static void *take_in_thread(void *argument) {
  taker *t = argument;
  if (take(t, true) == GCONV_OK) {
    atomic_fetch_add(&turns, 1);
    gconv_plans_give(t->plans, t->plan);
  }
  return NULL;
}

/* While one waits for memory, a second one comes, and finds a plan that it could have at once. */
static void who_waits_is_served_first(void **state) {
  (void)state;
  for (int i = 0; i < 100; i++) {
    gconv_plans *plans = begin(1);
    taker first = {.plans = plans, .width = 1}, waiting = {.plans = plans, .width = 2}, second = first;
    atomic_store(&turns, 0);
    assert_int_equal(take(&first, true), GCONV_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_in_thread, &waiting), 0);
    while (atomic_load(&made_not) < 2) /* it asks once, and once more when it waits */
      nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    assert_int_equal(take(&second, false), GCONV_NO_MEMORY);
    gconv_plans_give(plans, first.plan);
    assert_int_equal(take(&second, true), GCONV_OK);
    assert_int_equal(atomic_load(&turns), 1);
    gconv_plans_give(plans, second.plan);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.status, GCONV_OK);
    end(plans);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(idle_plans_make_room),
      cmocka_unit_test(nobody_waits_for_nobody),
      cmocka_unit_test(who_waits_is_served_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
