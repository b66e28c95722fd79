/* SPDX-License-Identifier: MIT */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct gconv_threads {
  pthread_mutex_t one_run; /* held during a whole run */
  pthread_mutex_t lock;    /* guards everything below but next_turn */
  pthread_cond_t work, idle;
  unsigned long run; /* counts runs, so that a worker knows a new one */
  int busy;          /* workers that have not finished this run */
  bool quit;
  gconv_turn *function;
  void *context;
  size_t turns;
  atomic_size_t next_turn;
  int count; /* the caller and the workers */
  struct worker {
    gconv_threads *pool;
    pthread_t thread;
    int index;
  } workers[];
};

/* Processors by the cgroup's quota ("max 100000" or "200000 100000"), or `most` where there is none. */
static int quota(int most) {
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
  long long limit = 0, period = 0;
  int fields = file ? fscanf(file, "%lld %lld", &limit, &period) : 0;
  if (file)
    fclose(file);
  if (fields != 2 || limit <= 0 || period <= 0)
    return most;
  long long whole = (limit + period - 1) / period;
  return whole < most ? (int)whole : most;
}

int gconv_processor_count(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return quota(count > 0 ? count : 1);
}

static void take_turns(gconv_threads *threads, int thread) {
  for (;;) {
    size_t turn = atomic_fetch_add(&threads->next_turn, 1);
    if (turn >= threads->turns)
      return;
    threads->function(threads->context, turn, thread);
  }
}

static void *work(void *argument) {
  struct worker *worker = argument;
  gconv_threads *pool = worker->pool;
  unsigned long seen = 0;
  pthread_mutex_lock(&pool->lock);
  for (;;) {
    while (!pool->quit && pool->run == seen)
      pthread_cond_wait(&pool->work, &pool->lock);
    if (pool->quit)
      break;
    seen = pool->run;
    pthread_mutex_unlock(&pool->lock);
    take_turns(pool, worker->index);
    pthread_mutex_lock(&pool->lock);
    if (--pool->busy == 0)
      pthread_cond_signal(&pool->idle);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

gconv_status gconv_threads_create(int count, gconv_threads **result) {
  if (count <= 0)
    count = gconv_processor_count();
  gconv_threads *threads = calloc(1, sizeof *threads + (size_t)count * sizeof threads->workers[0]);
  if (!threads)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for %d threads", count);
  pthread_mutex_init(&threads->one_run, NULL);
  pthread_mutex_init(&threads->lock, NULL);
  pthread_cond_init(&threads->work, NULL);
  pthread_cond_init(&threads->idle, NULL);
  /* Where the system refuses a thread, the pool makes do with those it has. */
  threads->count = 1;
  for (int i = 1; i < count; i++) {
    threads->workers[i] = (struct worker){.pool = threads, .index = i};
    if (pthread_create(&threads->workers[i].thread, NULL, work, &threads->workers[i]) != 0)
      break;
    threads->count++;
  }
  *result = threads;
  return GCONV_OK;
}

void gconv_threads_free(gconv_threads *threads) {
  if (!threads)
    return;
  pthread_mutex_lock(&threads->lock);
  threads->quit = true;
  pthread_cond_broadcast(&threads->work);
  pthread_mutex_unlock(&threads->lock);
  for (int i = 1; i < threads->count; i++)
    pthread_join(threads->workers[i].thread, NULL);
  pthread_cond_destroy(&threads->idle);
  pthread_cond_destroy(&threads->work);
  pthread_mutex_destroy(&threads->lock);
  pthread_mutex_destroy(&threads->one_run);
  free(threads);
}

int gconv_threads_count(const gconv_threads *threads) {
  return threads->count;
}

void gconv_threads_run(gconv_threads *threads, size_t turns, gconv_turn *function, void *context) {
  if (threads->count == 1) { /* nothing is shared */
    for (size_t turn = 0; turn < turns; turn++)
      function(context, turn, 0);
    return;
  }
  pthread_mutex_lock(&threads->one_run);
  threads->function = function;
  threads->context = context;
  threads->turns = turns;
  atomic_store(&threads->next_turn, 0);
  if (turns > 1 && threads->count > 1) {
    pthread_mutex_lock(&threads->lock);
    threads->busy = threads->count - 1;
    threads->run++;
    pthread_cond_broadcast(&threads->work);
    pthread_mutex_unlock(&threads->lock);
  }
  take_turns(threads, 0);
  if (turns > 1 && threads->count > 1) {
    pthread_mutex_lock(&threads->lock);
    while (threads->busy > 0)
      pthread_cond_wait(&threads->idle, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
  }
  pthread_mutex_unlock(&threads->one_run);
}
