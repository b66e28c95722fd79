/* SPDX-License-Identifier: MIT */
/* A pool of threads, for loops whose iterations are independent. An iteration is called a turn. */
#pragma once

#include "base/both.h"
#include "base/status.h"

#include <pthread.h>

GCONV_C_BEGIN

/* Makes a pool of `count` threads; gconv_threads_allowed(count) may reduce the number. The callers of gconv_threads_run()
 * count, so count - 1 threads are started. 0: one thread for each processor. */
gconv_status gconv_threads_create(int count, gconv_threads **threads);
/* NULL is allowed. */
void gconv_threads_free(gconv_threads *threads);

/* Starts a thread that blocks all signals but those of its own faults: signals are for the threads of the caller. */
bool gconv_thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

/* Whether this is a child, and the pool is its parent's, from before fork(). gconv_threads_free() leaves such a pool as it
 * is, and gconv_threads_run() has the caller do all turns. */
bool gconv_threads_inherited(const gconv_threads *threads);

/* Returns how many threads the pool has, the callers' one among them. */
int gconv_threads_count(const gconv_threads *threads);

/* A turn: `turn` is 0 .. turns - 1. `seat` is 0 .. count - 1. Turns that run at the same time have different seats, so the
 * seat selects the workspace. */
typedef void gconv_turn(void *context, size_t turn, int seat);

/* Calls function(context, turn, seat) once for each turn, and returns when all are done. Turns begin in order. Several
 * threads may call this at the same time. They share the seats: at most `count` turns run at a time, and no call waits for
 * another call to end. A pool of one thread has no seats: each caller does its turns itself, with seat 0. */
void gconv_threads_run(gconv_threads *threads, size_t turns, gconv_turn *function, void *context);

/* Calls errand(context) once, as a turn, and returns its status. If it fails, its error text becomes the last error of the
 * caller, whichever thread took the turn. */
typedef gconv_status gconv_errand(void *context);
gconv_status gconv_threads_do(gconv_threads *threads, gconv_errand *errand, void *context);

GCONV_C_END
