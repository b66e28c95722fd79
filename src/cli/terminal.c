/* SPDX-License-Identifier: MIT */
#include "cli/terminal.h"
#include "base/printable.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool silent;
static bool progress_shown; /* guarded by the lock of stderr */

void gconv_progress_hide(void) {
  flockfile(stderr);
  if (progress_shown)
    fputs("\r\033[K", stderr);
  progress_shown = false;
  funlockfile(stderr);
}

void gconv_progress_show(const char *text) {
  flockfile(stderr);
  fprintf(stderr, "\r\033[K%s", text);
  fflush(stderr);
  progress_shown = true;
  funlockfile(stderr);
}

void gconv_say_no_more(void) {
  atomic_store(&silent, true);
}

void gconv_put_lines(FILE *out, const char *text) {
  const char *at;
  for (; (at = strstr(text, GCONV_LINE_BREAK)); text = at + strlen(GCONV_LINE_BREAK))
    fprintf(out, "%.*s\n  ", (int)(at - text), text);
  fputs(text, out);
}

void gconv_say(const char *format, ...) {
  if (atomic_load(&silent))
    return;
  va_list arguments;
  char *text = NULL;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0)
    text = NULL;
  va_end(arguments);
  gconv_make_printable(text);
  flockfile(stderr);
  gconv_progress_hide();
  fputs("gconv: ", stderr);
  gconv_put_lines(stderr, text ? text : "no memory for a message");
  fputc('\n', stderr);
  funlockfile(stderr);
  free(text);
}

void gconv_say_text(const char *text) {
  gconv_say("%s", text);
}

void gconv_say_warning(gconv_log_level level, const char *text, void *user) {
  (void)user;
  if (level == GCONV_LOG_WARNING)
    gconv_say("warning: %s", text);
}

static void say_all(gconv_log_level level, const char *text, void *user) {
  if (level == GCONV_LOG_REMARK)
    gconv_say("%s", text);
  else
    gconv_say_warning(level, text, user);
}

gconv_log_function *gconv_log_of(bool quiet, bool verbose) {
  return verbose ? say_all : quiet ? NULL : gconv_say_warning;
}
