/* SPDX-License-Identifier: MIT */
/*
 * What a GPU may do for a run, and whether it is worth its start. Starting CUDA and ending it takes about 0.4 s, and
 * starting its decoder of JPEGs 0.6 s more. So a GPU is started only if it takes more than a fixed amount of work off the
 * CPU. The same holds for its decoder. The work is estimated in milliseconds of one thread, from headers and options alone.
 * Numbers of threads and workers, memory and timing do not count, as results may depend on the kind of device.
 */
#pragma once

#include "names/paths.h"
#include "operation/operation.h"

/* ---- What a GPU may do ---- */

/* Returns whether a GPU can compress results of the format (NULL: of several formats): PNG of level 1, the default. */
bool gconv_gpu_makes_png(const gconv_batch *batch, const gconv_format_info *format);
/* Returns whether a GPU may decode the inputs. It may not if the host needs pixels: to verify, or for its first stages. */
bool gconv_gpu_may_decode(const gconv_batch *batch);
/* Returns whether the results of an input may come from a GPU in parts: they are a few files, which are all open at once and
 * can all be removed after a failure. */
bool gconv_gpu_may_send_parts(const gconv_batch *batch, char *const *paths, size_t count);

/* ---- Whether it is worth its start ---- */

typedef struct gconv_worth {
  bool cpu_can, gpu_can; /* the device has the algorithms that were asked for */
  bool gpu;              /* a GPU is worth its start ... */
  bool decoder;          /* ... and its decoder, too */
  bool hindered;         /* a GPU is worth its start, but cannot do the work: `reason` says why */
  char reason[192];      /* "a GPU would take ..." */
} gconv_worth;

/* Finds what devices can do for a batch. `looks`: reads up to 32 headers of inputs, to judge whether a GPU is worth it. */
gconv_worth gconv_worth_find(const gconv_batch *batch, bool looks);
