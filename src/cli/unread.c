/* SPDX-License-Identifier: MIT */
/* This function has a file of its own because the fuzzer of command lines replaces it. */
#include "base/file.h"
#include "cli/terminal.h"

#include <signal.h>
#include <string.h>

void gconv_end_when_unread(const char *output) {
  if (!output || strcmp(output, "-") == 0 || strcmp(output, "/dev/stdout") == 0) {
    signal(SIGPIPE, SIG_DFL);
    gconv_end_process_when_unread();
  }
}
