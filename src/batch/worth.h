/* SPDX-License-Identifier: MIT */
/*
 * Whether a GPU is worth its start. Starting CUDA and ending it takes about 0.4 s, starting its decoder of JPEGs 0.6 s more.
 * So a GPU is started if it takes more than a fixed amount of work off the CPU, and so is its decoder. The work is counted
 * in milliseconds of one thread, from headers and options alone: the numbers of threads and jobs, memory and timing have no
 * part in it, as results may depend on which kind of device does the run.
 */
#ifndef GCONV_BATCH_WORTH_H
#define GCONV_BATCH_WORTH_H

#include "names/texts.h"

typedef struct gconv_worth {
  bool cpu_can, gpu_can; /* the device has the algorithms that were asked for */
  bool gpu;              /* a GPU is worth its start ... */
  bool decoder;          /* ... and so is its decoder */
  char reason[192];      /* "a GPU would take ..." */
} gconv_worth;

/* What a GPU is worth for a job, and, with `looks`, by how much: reads up to 32 headers of its inputs for that. */
gconv_worth gconv_worth_find(const gconv_batch *batch, bool looks);

#endif
