/* SPDX-License-Identifier: MIT */
/* Loops whose turns are independent, over threads that live as long as the loop. */
#ifndef GCONV_BATCH_LOOP_H
#define GCONV_BATCH_LOOP_H

#include <stddef.h>

/* Calls turn(context, i) for each i, on up to `threads` threads; those that cannot be started are done without. */
void gconv_loop_run(int threads, size_t count, void (*turn)(void *context, size_t i), void *context);

#endif
