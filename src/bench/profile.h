/* SPDX-License-Identifier: MIT */
/*
 * What the multiprocessors of a GPU do while a piece of work runs, by the counters of the hardware. NVIDIA's library CUPTI
 * reads them; it is loaded when it is needed, from CUDA 12.6 on.
 */
#pragma once

#include "base/status.h"

enum { GCONV_PROFILE_REASONS = 3 };

typedef struct gconv_profile {
  bool known;
  double
      occupancy; /* resident warps as a part of the most that there may be, mean over the cycles of busy multiprocessors */

  /* Why warps did not issue an instruction: the reasons with the largest shares of the time of all resident warps, in
   * descending order. The rest of the time went to other reasons, and to issuing. */
  struct {
    char reason[32]; /* NVIDIA's name, such as "long scoreboard"; "" past the last */
    double share;
  } stalls[GCONV_PROFILE_REASONS];
} gconv_profile;

typedef struct gconv_profiler gconv_profiler;

/* Prepares to profile work on the device. GCONV_UNSUPPORTED names what is missing: a GPU, the library, permission. The
 * device must outlive the profiler. *profiler is for gconv_profiler_close(), NULL after a failure. */
gconv_status gconv_profiler_open(const gconv_device *device, gconv_profiler **profiler);

/* Calls work(user) several times, since the hardware has few counters. work() must do the same each time, on the device, and
 * wait for its end. All kernels that it runs count. */
gconv_status gconv_profiler_run(gconv_profiler *profiler, gconv_status (*work)(void *user), void *user,
                                gconv_profile *profile);

/* NULL is allowed. */
void gconv_profiler_close(gconv_profiler *profiler);
