/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/terminal.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

volatile int gconv_interrupted;
static volatile sig_atomic_t catching;
static const char *_Atomic said;
static volatile sig_atomic_t erases; /* the terminal can erase a line of progress */

void gconv_interrupt_catch(bool catch) {
  catching = catch;
}

bool gconv_interrupt_take(int number) {
  bool taken = catching && gconv_interrupted == 0;
  if (taken)
    gconv_interrupted = number;
  return taken;
}

void gconv_interrupt_say(const char *line) {
  erases = gconv_terminal_can_erase();
  atomic_store(&said, line);
}

void gconv_interrupt_tell(void) {
  const char *line = atomic_load(&said), *clear = "\r\033[K";
  if (!line)
    return;
  ssize_t ignored = erases ? write(STDERR_FILENO, clear, strlen(clear)) : 0;
  ignored += write(STDERR_FILENO, line, strlen(line));
  (void)ignored; /* nothing can be done if the terminal is gone */
}

void gconv_interrupt_end(void) {
  gconv_interrupt_catch(false);
  if (gconv_interrupted)
    raise(gconv_interrupted);
}
