/* SPDX-License-Identifier: MIT */
/* A pool of threads for loops whose turns are independent. */
#ifndef GCONV_BASE_THREADS_H
#define GCONV_BASE_THREADS_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pool of `count` threads, or as many as gconv_threads_allowed(count) says, the callers of gconv_threads_run() being among
 * them: count - 1 are started. 0: one a processor. */
gconv_status gconv_threads_create(int count, gconv_threads **threads);
/* NULL is allowed. */
void gconv_threads_free(gconv_threads *threads);

/* A turn: `turn` is 0 .. turns - 1. `seat` is 0 .. count - 1 and tells whose workspace to use: no two turns that run at the
 * same time have the same. */
typedef void gconv_turn(void *context, size_t turn, int seat);

/* Calls function(context, turn, seat) once for each turn, in any order, and returns when all are done. Turns are begun in
 * order. Calls from several threads at a time share the seats: no more than `count` turns run at a time, and no call waits
 * until another one is through. A pool of one thread has no seats: each caller does its turns by itself, as seat 0. */
void gconv_threads_run(gconv_threads *threads, size_t turns, gconv_turn *function, void *context);

/* Calls errand(context) once, as such a turn, and returns what it returns. The text of a failure becomes the last error of
 * the caller, whichever thread took the turn. */
typedef gconv_status gconv_errand(void *context);
gconv_status gconv_threads_do(gconv_threads *threads, gconv_errand *errand, void *context);

#ifdef __cplusplus
}
#endif
#endif
