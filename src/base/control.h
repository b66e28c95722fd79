/* SPDX-License-Identifier: MIT */
/* How long work is stopped and watched by a caller's gconv_control. A thread has the control that its caller gave it by
 * gconv_control_use(), or, if it works for another thread, that thread's by gconv_control_lend(). */
#pragma once

#include "base/both.h"
#include "gconv_embed.h"

GCONV_C_BEGIN

/* The control that a thread has been given, and whether it has stopped the work. */
typedef struct gconv_controlled gconv_controlled;

/* Returns the control of this thread, for threads that work for it. NULL: it has none. */
gconv_controlled *gconv_control_here(void);

/* Lets this thread, which works for another, have the control of that thread; NULL: none. The other thread waits until this
 * one has ended or calls this again. */
void gconv_control_lend(gconv_controlled *control);

/* Returns whether the work shall stop. Any thread may ask. The thread of the caller looks at progress(), too, some 50 times
 * a second. NULL: false. */
bool gconv_control_stops(gconv_controlled *control);

/* In the thread that called the library, tells progress() again what was told last, some 50 times a second: its answer may
 * have changed. For loops that do not know how far the work is. */
void gconv_control_poll(void);

/* Returns whether the caller waits for an answer of progress() in this thread: then it must call gconv_control_poll() every
 * GCONV_CONTROL_MS, and not sleep longer. */
bool gconv_control_is_watched(void);
enum { GCONV_CONTROL_MS = 20 };

/* Notes for the next poll that `done` of 1 is done of `what`. Any thread may call it. NULL is allowed. */
void gconv_control_note(gconv_controlled *control, const char *what, double done);

/* Fails with GCONV_STOPPED, and the reason, if the work of this thread shall stop. Tells the caller before, in the thread
 * that called the library, that `done` of 1 is done of `what`, a word such as "filtering". */
gconv_status gconv_control_step(const char *what, double done);

/* Fails with GCONV_STOPPED, and the reason, if the work of this thread shall stop. */
gconv_status gconv_control_check(void);

/* Sets new memory to 0, and looks between pieces of 32 MiB whether the work shall stop: the system makes pages of memory
 * when they are first written, in some virtual machines half a gigabyte a second. */
gconv_status gconv_control_zeros(void *memory, size_t bytes);

/* Fails with GCONV_STOPPED, and the reason. */
gconv_status gconv_control_fail(gconv_controlled *control);

GCONV_C_END
