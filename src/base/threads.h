/* SPDX-License-Identifier: MIT */
/* A pool of threads, for loops whose iterations are independent. An iteration is called a turn. */
#pragma once

#include "base/both.h"
#include "base/status.h"

#include <pthread.h>

GCONV_C_BEGIN

/* Makes a pool of `count` threads; gconv_threads_allowed(count) may reduce the number. The caller of gconv_threads_run()
 * works, too, so only count - 1 threads are started. If `count` is 0, there is one thread for each processor. */
gconv_status gconv_threads_create(int count, gconv_threads **threads);
/* Ends the threads, and frees the pool. NULL is allowed. */
void gconv_threads_free(gconv_threads *threads);

/* Starts a thread that blocks all signals but those of its own faults, so that the caller's threads handle the others.
 * Returns false if it cannot be started. */
bool gconv_thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

/* Returns whether this process is a child after fork(), and the pool was made by its parent. gconv_threads_free() leaves
 * such a pool as it is, and gconv_threads_run() does all turns in the caller's thread. */
bool gconv_threads_inherited(const gconv_threads *threads);

/* Returns how many threads the pool has, including the caller's. */
int gconv_threads_count(const gconv_threads *threads);

/* A turn. `turn` is 0 .. turns - 1, and `seat` is 0 .. count - 1. Turns that run at the same time have different seats, so
 * the seat selects the workspace. */
typedef void gconv_turn(void *context, size_t turn, int seat);

/* Calls function(context, turn, seat) once for each turn, and returns when all are done. Turns begin in order. Several
 * threads may call this at the same time. They share the seats: at most `count` turns run at a time, and no call waits for
 * another call to end. A pool of one thread has no seats: each caller does its turns itself, with seat 0. */
void gconv_threads_run(gconv_threads *threads, size_t turns, gconv_turn *function, void *context);

/* Does the same, but divides the turns into consecutive parts, one for each seat. A thread takes the turns of its part
 * first, and then helps with other parts. For several calls on the same data: a thread mostly finds in its caches the data
 * that it made in the call before. */
void gconv_threads_run_in_parts(gconv_threads *threads, size_t turns, gconv_turn *function, void *context);

/* Do the same as the functions above, but begin no further turn once the caller's control stops. Data may then be
 * incomplete: the caller uses them only after gconv_control_check() has returned GCONV_OK. */
void gconv_threads_run_or_stop(gconv_threads *threads, size_t turns, gconv_turn *function, void *context);
void gconv_threads_run_in_parts_or_stop(gconv_threads *threads, size_t turns, gconv_turn *function, void *context);

/* From a call with true to a call with false, threads that wait for the next call of gconv_threads_run() stay awake for up
 * to 0.1 ms, because waking them takes long. For many short calls after each other. NULL is allowed. */
void gconv_threads_stay_awake(gconv_threads *threads, bool awake);

/* Calls errand(context) once, as a turn, and returns its status. If it fails, its error text becomes the last error of the
 * caller, even if another thread took the turn. */
typedef gconv_status gconv_errand(void *context);
gconv_status gconv_threads_do(gconv_threads *threads, gconv_errand *errand, void *context);

GCONV_C_END
