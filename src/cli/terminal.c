/* SPDX-License-Identifier: MIT */
#include "cli/terminal.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

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

void gconv_say(const char *format, ...) {
  if (atomic_load(&silent))
    return;
  va_list arguments;
  va_start(arguments, format);
  flockfile(stderr);
  gconv_progress_hide();
  fputs("gconv: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  funlockfile(stderr);
  va_end(arguments);
}
