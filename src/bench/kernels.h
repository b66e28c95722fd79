/* SPDX-License-Identifier: MIT */
/* Parts of --profile. For a piece of work, finds the launches and times of its kernels by CUPTI's records, the occupancy,
 * and the energy by NVIDIA's library NVML. */
#pragma once

#include "base/status.h"

/* What a multiprocessor has. */
typedef struct gconv_occupancy_limits {
  int32_t threads, blocks, registers, shared, reserved; /* reserved: of the shared memory, for each block */
} gconv_occupancy_limits;

/* A launch. shared: bytes of shared memory of a block; registers: of a thread. */
typedef struct gconv_kernel_launch {
  int32_t registers, threads, shared;
  double ms;
  char name[96]; /* of the function, and of the types among the arguments of its template */
} gconv_kernel_launch;

/* The launches of a kernel. */
typedef struct gconv_kernel_times {
  gconv_kernel_launch longest; /* the one that took longest */
  int64_t launches, blocks;    /* blocks: of all launches */
  double ms;                   /* of all launches */
} gconv_kernel_times;

/* Returns the occupancy: how many warps can be resident, divided by the most that a multiprocessor holds. */
double gconv_occupancy(const gconv_occupancy_limits *limits, int32_t registers, int32_t threads, int32_t shared);

/* From gconv_kernels_begin() to gconv_kernels_end(), all kernels of this process are recorded. With GCONV_UNSUPPORTED, the
 * error names what is missing. *times has an item for each kernel, the longest time first. The caller frees it. */
gconv_status gconv_kernels_begin(void);
gconv_status gconv_kernels_end(gconv_kernel_times **times, size_t *count);

/* Runs work(user) once, and finds the launch that took longest. GCONV_UNSUPPORTED: there are
 * no records, and *launch stays as it is. */
gconv_status gconv_kernel_longest(gconv_status (*work)(void *user), void *user, gconv_kernel_launch *launch);

/* Runs work(user) for a second, and sets *joules to the energy of the GPU for one call, with everything else
 * that the GPU does meanwhile; NAN without NVML. bus: the address of the GPU, such as 0000:1b:00.0. */
gconv_status gconv_kernel_energy(const char *bus, gconv_status (*work)(void *user), void *user, double *joules);
