/* SPDX-License-Identifier: MIT */
/* Where the threads of a pool work: the linker leads the system's calls about processors here, so that all threads wake on
 * one processor, whatever the machine does. */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

enum { THREADS = 3, HERE = 3 };
static const int allowed[] = {1, HERE, 5, 1000};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static cpu_set_t sets[THREADS * 4];                      /* of the calls of sched_setaffinity() */
static size_t set_count;
static bool fails;

int __wrap_sched_getcpu(void);
int __wrap_sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *set);

int __wrap_sched_getcpu(void) {
  return HERE;
}

int __wrap_sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set) {
  (void)thread, (void)bytes;
  CPU_ZERO(set);
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    CPU_SET(allowed[i], set);
  return 0;
}

int __wrap_sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *set) {
  (void)bytes;
  pthread_mutex_lock(&lock);
  if (thread == 0 && set_count < sizeof sets / sizeof *sets)
    sets[set_count++] = *set;
  bool failed = fails;
  pthread_mutex_unlock(&lock);
  return failed ? -1 : 0;
}

/* All threads are in a turn at the same time. */
static void meet(void *context, size_t turn, int seat) {
  (void)turn, (void)seat;
  pthread_barrier_wait(context);
}

static void run(gconv_threads *threads) {
  pthread_barrier_t barrier;
  assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
  set_count = 0;
  gconv_threads_run(threads, THREADS, meet, &barrier);
  pthread_barrier_destroy(&barrier);
}

static size_t count_sets(int processor) {
  size_t count = 0;
  for (size_t i = 0; i < set_count; i++)
    count += CPU_COUNT(&sets[i]) == 1 && CPU_ISSET(processor, &sets[i]);
  return count;
}

static void each_has_a_processor_of_its_own(void **state) {
  (void)state;
  gconv_threads *threads;
  assert_int_equal(gconv_threads_create(THREADS, &threads), GCONV_OK);
  assert_int_equal(gconv_threads_count(threads), THREADS);
  for (int round = 0; round < 3; round++) {
    run(threads);
    assert_int_equal(set_count, 4); /* two threads move, and may be moved again */
    assert_int_equal(count_sets(5), 1);
    assert_int_equal(count_sets(1000), 1);
    size_t whole = 0;
    for (size_t i = 0; i < set_count; i++)
      whole += CPU_COUNT(&sets[i]) == (int)(sizeof allowed / sizeof *allowed);
    assert_int_equal(whole, 2);
  }
  fails = true;
  run(threads);
  assert_int_equal(set_count, 2);
  fails = false;
  gconv_threads_free(threads);
}

typedef struct taken {
  int turns[100], seats[100];
} taken;

static void take(void *context, size_t turn, int seat) {
  taken *t = context;
  pthread_mutex_lock(&lock);
  t->turns[turn]++;
  t->seats[turn] = seat;
  pthread_mutex_unlock(&lock);
}

/* Whatever the number of turns, each is taken once. A thread that is alone takes the parts of all. */
static void parts_have_each_turn_once(void **state) {
  (void)state;
  gconv_threads *threads;
  assert_int_equal(gconv_threads_create(THREADS, &threads), GCONV_OK);
  for (size_t turns = 0; turns <= 100; turns++) {
    taken t = {{0}, {0}};
    gconv_threads_run_in_parts(threads, turns, take, &t);
    for (size_t i = 0; i < 100; i++) {
      assert_int_equal(t.turns[i], i < turns);
      assert_in_range(t.seats[i], 0, THREADS - 1);
    }
  }
  gconv_threads_free(threads);
}

typedef struct meeting {
  pthread_barrier_t barrier;
  int seats[2 * THREADS];
} meeting;

/* The first turns of all parts are at the same time. */
static void meet_in_parts(void *context, size_t turn, int seat) {
  meeting *m = context;
  m->seats[turn] = seat;
  if (turn % 2 == 0)
    pthread_barrier_wait(&m->barrier);
}

/* Each of three threads takes the first turn of its own part. */
static void threads_begin_with_their_parts(void **state) {
  (void)state;
  gconv_threads *threads;
  meeting m;
  assert_int_equal(gconv_threads_create(THREADS, &threads), GCONV_OK);
  assert_int_equal(pthread_barrier_init(&m.barrier, NULL, THREADS), 0);
  for (int round = 0; round < 20; round++) {
    gconv_threads_run_in_parts(threads, (size_t)2 * THREADS, meet_in_parts, &m);
    for (int part = 0; part < THREADS; part++)
      assert_int_equal(m.seats[2 * part], part);
  }
  pthread_barrier_destroy(&m.barrier);
  gconv_threads_free(threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_has_a_processor_of_its_own),
                                     cmocka_unit_test(parts_have_each_turn_once),
                                     cmocka_unit_test(threads_begin_with_their_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
