/* SPDX-License-Identifier: MIT */
#include "cli/threads.h"
#include "cli/terminal.h"
#include "gconv.h"

int gconv_settle_threads(int wanted, bool quiet) {
  int allowed = gconv_threads_allowed(wanted);
  if (wanted > allowed && !quiet)
    gconv_say("--threads %d: %d %s used, as this process may use no more processors (affinity and control groups counted)",
              wanted, allowed, allowed == 1 ? "is" : "are");
  return wanted > 0 ? allowed : 0;
}
