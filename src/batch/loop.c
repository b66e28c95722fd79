/* SPDX-License-Identifier: MIT */
#include "batch/loop.h"

#include <pthread.h>

typedef struct loop {
  void (*turn)(void *context, size_t turn);
  void *context;
  size_t count, next;
  pthread_mutex_t lock;
} loop;

static void *run_turns(void *argument) {
  loop *l = argument;
  for (;;) {
    pthread_mutex_lock(&l->lock);
    size_t turn = l->next++;
    pthread_mutex_unlock(&l->lock);
    if (turn >= l->count)
      return NULL;
    l->turn(l->context, turn);
  }
}

enum { MOST_THREADS = 256 };

void gconv_loop_run(int threads, size_t count, void (*turn)(void *, size_t), void *context) {
  loop l = {turn, context, count, 0, PTHREAD_MUTEX_INITIALIZER};
  pthread_t others[MOST_THREADS];
  size_t started = 0, wanted = (size_t)(threads < MOST_THREADS ? threads : MOST_THREADS);
  while (started + 1 < wanted && started + 1 < count && pthread_create(&others[started], NULL, run_turns, &l) == 0)
    started++;
  run_turns(&l);
  for (size_t i = 0; i < started; i++)
    pthread_join(others[i], NULL);
}
