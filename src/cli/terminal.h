/* SPDX-License-Identifier: MIT */
/* Everything said on standard error goes through here, so that messages and the progress line do not mix. */
#pragma once

#include "gconv.h"

#include <stdio.h>

/* Ends a line of a message that has several: the line separator of Unicode, as control characters are not printed
 * (base/printable.h). The next line is indented, so that no name can look like a message of its own. */
#define GCONV_LINE_BREAK "\xe2\x80\xa8"

/* Prints a text with its lines, without a final newline. */
void gconv_put_lines(FILE *out, const char *text);

/* Prints "gconv: <text>" and a newline; GCONV_LINE_BREAK begins a further line. May be called from any thread. */
void gconv_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints it in the same manner. */
void gconv_say_text(const char *text);

/* For gconv_set_log(): says warnings, and drops remarks. */
void gconv_say_warning(gconv_log_level level, const char *text, void *user);
/* For gconv_set_log(): what says warnings unless `quiet`, and remarks if `verbose`. */
gconv_log_function *gconv_log_of(bool quiet, bool verbose);

/* Whether not all that was printed to standard output is there, as the disk is full, or it was closed. The first call says
 * so. A pipe whose reader has gone away, as that of `| head` does, loses nothing. */
bool gconv_output_is_lost(void);

/* Whether standard error is a terminal that can erase a line: a line of progress is shown on no other. Not if TERM is dumb
 * or not set, nor with NO_COLOR. */
bool gconv_terminal_can_erase(void);

/* Shows one line of progress in place of the one before; it has no newline, and is short. */
void gconv_progress_show(const char *text);

/* Removes the line of progress, if there is one: before something else is printed, and at the end. */
void gconv_progress_hide(void);

/* Where nothing is written but standard output: from now on a reader that goes away, as that of `| head` does, ends the
 * program by SIGPIPE and without a word, as it ends other programs. What also writes files goes on without a reader.
 * `output`: the path of the results; NULL: there is none. Before threads begin. */
void gconv_end_when_unread(const char *output);

/* From now on nothing is said: for a signal handler, after which the failures of other threads are no news.
 * Async-signal-safe. */
void gconv_say_no_more(void);
