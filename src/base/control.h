/* SPDX-License-Identifier: MIT */
/* How a caller's gconv_control stops and watches long work. A thread gets its control by gconv_control_use(). A thread that
 * works for another gets the control of that thread by gconv_control_lend(). */
#pragma once

#include "base/both.h"
#include "gconv_embed.h"

GCONV_C_BEGIN

/* The control that a thread has been given, and whether it has stopped the work. */
typedef struct gconv_controlled gconv_controlled;

/* Returns the control of this thread, for threads that work for it. NULL: it has none. */
gconv_controlled *gconv_control_here(void);

/* Lends this thread the control of the thread that it works for; NULL: none. The lender must wait until this thread has
 * ended, or has called this function again. */
void gconv_control_lend(gconv_controlled *control);

/* Returns whether the work shall stop; NULL: false. Any thread may call it. In the thread that called the library, it also
 * calls progress(), some 50 times a second. */
bool gconv_control_stops(gconv_controlled *control);

/* In the thread that called the library, calls progress() again with the last report, some 50 times a second: its answer may
 * have changed. For loops that do not know how far the work is. */
void gconv_control_poll(void);

/* Returns whether this thread calls progress(). Then it must call gconv_control_poll() every GCONV_CONTROL_MS, and not sleep
 * longer. */
bool gconv_control_is_watched(void);
enum { GCONV_CONTROL_MS = 20 };

/* Notes for the next poll that the fraction `done` of `what` is done. Any thread may call it. NULL is allowed. */
void gconv_control_note(gconv_controlled *control, const char *what, double done);

/* Fails with GCONV_STOPPED, and the reason, if the work of this thread shall stop. In the thread that called the library, it
 * first reports that the fraction `done` of `what`, a word such as "filtering", is done. */
gconv_status gconv_control_step(const char *what, double done);

/* Fails with GCONV_STOPPED, and the reason, if the work of this thread shall stop. */
gconv_status gconv_control_check(void);

/* Sets new memory to 0, and checks between pieces of 32 MiB whether the work shall stop. The first write to a page lets the
 * system allocate it, which some virtual machines do at half a gigabyte a second. */
gconv_status gconv_control_zeros(void *memory, size_t bytes);

/* Fails with GCONV_STOPPED, and the reason. */
gconv_status gconv_control_fail(gconv_controlled *control);

GCONV_C_END
