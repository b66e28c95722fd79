/* SPDX-License-Identifier: MIT */
#include "batch/clock.h"

#include <time.h>

double gconv_batch_clock_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}
