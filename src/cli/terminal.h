/* SPDX-License-Identifier: MIT */
/* Everything said on standard error goes through here, so that messages and the progress line do not mix. */
#ifndef GCONV_CLI_TERMINAL_H
#define GCONV_CLI_TERMINAL_H

#include "gconv.h"

/* Prints "gconv: <text>" and a newline. May be called from any thread. */
void gconv_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints it in the same manner. */
void gconv_say_text(const char *text);

/* For gconv_set_log(): says warnings, and drops remarks. */
void gconv_say_warning(gconv_log_level level, const char *text, void *user);

/* Shows one line of progress in place of the one before; it has no newline, and is short. */
void gconv_progress_show(const char *text);

/* Removes the line of progress, if there is one: before something else is printed, and at the end. */
void gconv_progress_hide(void);

/* From now on nothing is said: for a signal handler, after which the failures of other threads are no news.
 * Async-signal-safe. */
void gconv_say_no_more(void);

#endif
