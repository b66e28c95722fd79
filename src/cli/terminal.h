/* SPDX-License-Identifier: MIT */
/* Messages on standard error, all of which these functions print, so that messages and the progress line do not mix. */
#pragma once

#include "gconv.h"

#include <stdio.h>

/* Ends a line within a message. It is the line separator of Unicode, because messages have their control characters replaced
 * (base/printable.h). The next line is indented, so that no name can look like a message of its own. */
#define GCONV_LINE_BREAK "\xe2\x80\xa8"

/* Prints a text with its lines, without a final newline. */
void gconv_put_lines(FILE *out, const char *text);

/* Prints "gconv: <text>" and a newline; GCONV_LINE_BREAK begins a further line. May be called from any thread. */
void gconv_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Does gconv_say("%s", text). */
void gconv_say_text(const char *text);

/* For gconv_set_log(): prints warnings, and drops remarks. */
void gconv_say_warning(gconv_log_level level, const char *text, void *user);
/* For gconv_set_log(): returns the function that prints warnings unless `quiet`, and remarks if `verbose`. */
gconv_log_function *gconv_log_of(bool quiet, bool verbose);

/* True if some of standard output is lost, because the disk is full, or it was closed. The first call prints an error. A
 * reader that goes away, as `| head` does, is no loss. */
bool gconv_output_is_lost(void);

/* True if standard error is a terminal that can erase a line, so that a line of progress is shown. False if TERM is dumb or
 * not set, and with NO_COLOR. */
bool gconv_terminal_can_erase(void);

/* Shows one line of progress in place of the one before. The text has no newline, and is shorter than a line. */
void gconv_progress_show(const char *text);

/* "[######......]": how much is done of all, for a line of progress. Static storage, of one thread at a time. */
const char *gconv_progress_bar(size_t done, size_t all);

/* Removes the line of progress, if there is one. Call it before something else is printed, and at the end. */
void gconv_progress_hide(void);

/* From now on, SIGPIPE ends the program without a message, as it ends other programs: the reader of standard output went
 * away, as `| head` does. But if `output`, the path of the results, is a file, nothing changes: the program goes on, and
 * writes the file. `output` is NULL if there are no results. Call it before threads begin. */
void gconv_end_when_unread(const char *output);

/* From now on, drops all messages. For a signal handler: failures of other threads after the signal are its consequence.
 * Async-signal-safe. */
void gconv_say_no_more(void);
