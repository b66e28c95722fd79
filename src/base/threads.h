/* SPDX-License-Identifier: MIT */
/* A pool of threads for loops whose turns are independent. */
#ifndef GCONV_BASE_THREADS_H
#define GCONV_BASE_THREADS_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gconv_threads gconv_threads;

/* A pool of `count` threads, the caller of gconv_threads_run() being one of them: count - 1 are started. 0: one a
 * processor. */
gconv_status gconv_threads_create(int count, gconv_threads **threads);
/* NULL is allowed. */
void gconv_threads_free(gconv_threads *threads);
int gconv_threads_count(const gconv_threads *threads);

/* A turn: `turn` is 0 .. turns - 1, `thread` is 0 .. count - 1 and tells whose workspace to use. */
typedef void gconv_turn(void *context, size_t turn, int thread);

/* Calls function(context, turn, thread) once for each turn, in any order, and returns when all are done. Calls from several
 * threads at a time are run one after another; without threads of its own, at the same time. */
void gconv_threads_run(gconv_threads *threads, size_t turns, gconv_turn *function, void *context);

#ifdef __cplusplus
}
#endif
#endif
