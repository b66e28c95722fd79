/* SPDX-License-Identifier: MIT */
/* --windows --timings: how fast a stream goes, and how long its windows take. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { GCONV_LATENCY_STEPS = 512 };

/* Latencies are counted in steps of 5% from 1 us on, so that streams of any length take the same memory. */
typedef struct gconv_window_timings {
  double begin_ms; /* by gconv_now_ms() */
  uint64_t windows, counts[GCONV_LATENCY_STEPS];
} gconv_window_timings;

/* Counts windows that took `ms`. */
void gconv_window_timings_note(gconv_window_timings *timings, double ms, size_t windows);

/* Prints the report: as JSON, or as a line. `samples` were read; `to_stdout` unless rows go there. */
void gconv_window_timings_tell(const gconv_window_timings *timings, const char *name, double samples, bool json,
                               bool to_stdout);
