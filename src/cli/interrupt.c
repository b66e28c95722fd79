/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"

#include <signal.h>

volatile int gconv_interrupted;
static volatile sig_atomic_t catching;

void gconv_interrupt_catch(bool catch) {
  catching = catch;
}

bool gconv_interrupt_take(int number) {
  bool taken = catching && gconv_interrupted == 0;
  if (taken)
    gconv_interrupted = number;
  return taken;
}

void gconv_interrupt_end(void) {
  gconv_interrupt_catch(false);
  if (gconv_interrupted)
    raise(gconv_interrupted);
}
