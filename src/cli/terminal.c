/* SPDX-License-Identifier: MIT */
#include "cli/terminal.h"
#include "base/checksum.h"
#include "base/printable.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool silent;
static bool progress_shown; /* guarded by the lock of stderr */

bool gconv_terminal_can_erase(void) {
  const char *terminal = getenv("TERM"), *plain = getenv("NO_COLOR");
  return isatty(STDERR_FILENO) && terminal && terminal[0] && strcmp(terminal, "dumb") != 0 && !(plain && plain[0]);
}

void gconv_progress_hide(void) {
  flockfile(stderr);
  if (progress_shown)
    fputs("\r\033[K", stderr);
  progress_shown = false;
  funlockfile(stderr);
}

const char *gconv_progress_bar(size_t done, size_t all) {
  enum { WIDTH = 24 };
  static char bar[] = "[........................]";
  const size_t filled = all > 0 ? done * WIDTH / all : WIDTH;
  memset(bar + 1, '.', WIDTH);
  memset(bar + 1, '#', filled);
  return bar;
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

/* Returns whether the text is one of the last warnings, and remembers it. */
static bool is_repeated(const char *text) {
  enum { REMEMBERED = 64 };
  static uint64_t seen[REMEMBERED]; /* guarded by the lock of stderr */
  static size_t next;
  const uint64_t hash = gconv_fnv1a(0, text, strlen(text));
  bool is = false;
  flockfile(stderr);
  for (size_t i = 0; i < REMEMBERED && !is; i++)
    is = seen[i] == hash;
  if (!is)
    seen[next++ % REMEMBERED] = hash;
  funlockfile(stderr);
  return is;
}

void gconv_say_warning(gconv_log_level level, const char *text, void *user) {
  if (level == GCONV_LOG_WARNING && !is_repeated(text)) /* a table that is read twice warns twice */
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

/* ---- Standard output ---- */

/* True if the reader has gone away. Asks the pipe, because the errno of the failure may have been lost since. */
static bool is_unread(void) {
  struct pollfd pipe = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&pipe, 1, 0) > 0 && (pipe.revents & POLLERR);
}

bool gconv_output_is_lost(void) {
  static bool said;
  errno = 0;
  if ((fflush(stdout) == 0 && !ferror(stdout)) || is_unread())
    return false;
  if (!said)
    gconv_say("standard output: cannot write: %s", errno ? strerror(errno) : "it was closed, or is full");
  said = true;
  return true;
}
