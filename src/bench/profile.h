/* SPDX-License-Identifier: MIT */
/*
 * What the multiprocessors of a GPU do while a piece of work runs, by the counters of the hardware. NVIDIA's library CUPTI
 * reads them; it is loaded when it is needed, from CUDA 12.6 on.
 */
#pragma once

#include "base/status.h"

#include "bench/kernels.h"

enum { GCONV_PROFILE_REASONS = 6, GCONV_PROFILE_REPORTED = 3 /* of the reasons, in reports */ };

/* Kinds of instructions, by the unit that executes them: name in reports, and in the counters. */
#define GCONV_PROFILE_KINDS(KIND)                                                                                           \
  KIND(MULTIPLY_ADD, "multiply-add", "fma")                                                                                 \
  KIND(INTEGER, "integer and logic", "alu")                                                                                 \
  KIND(MEMORY, "load and store", "lsu")                                                                                     \
  KIND(TEXTURE, "texture", "tex")                                                                                           \
  KIND(TENSOR, "tensor", "tensor")                                                                                          \
  KIND(FUNCTION, "function", "xu")                                                                                          \
  KIND(DOUBLE, "float64", "fp64")                                                                                           \
  KIND(UNIFORM, "uniform", "uniform")                                                                                       \
  KIND(BRANCH, "branch", "cbu")
#define GCONV_PROFILE_KIND(kind, ...) GCONV_PROFILE_##kind,
enum { GCONV_PROFILE_KINDS(GCONV_PROFILE_KIND) GCONV_PROFILE_KIND_COUNT };

/* Bytes that one execution moves: name in reports, in JSON and CSV, and the counter. */
#define GCONV_PROFILE_TRAFFIC(PATH)                                                                                         \
  PATH(DRAM_READ, "DRAM read", "dram_read", "dram__bytes_read.sum", 1)                                                      \
  PATH(DRAM_WRITE, "DRAM written", "dram_written", "dram__bytes_write.sum", 1)                                              \
  PATH(L2, "L2", "l2", "lts__t_bytes.sum", 1)                                                                               \
  PATH(L1, "L1", "l1", "l1tex__t_bytes.sum", 1)                                                                             \
  PATH(SHARED, "shared", "shared", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 128)
#define GCONV_PROFILE_PATH(path, ...) GCONV_PROFILE_##path,
enum { GCONV_PROFILE_TRAFFIC(GCONV_PROFILE_PATH) GCONV_PROFILE_PATH_COUNT };

/* The profile of one execution. NAN: this GPU has no such counter. */
typedef struct gconv_profile {
  bool known;
  double occupancy; /* resident warps, divided by the most that can be: the mean over the cycles of busy multiprocessors */
  double units, memory;                   /* the busiest unit, and the busiest memory, as fractions of their peaks */
  double instructions;                    /* of warps */
  double kinds[GCONV_PROFILE_KIND_COUNT]; /* of warps, by kind */
  double bytes[GCONV_PROFILE_PATH_COUNT]; /* shared: 128 for each access of a warp */
  double joules;                          /* energy of the whole GPU during the execution */
  gconv_kernel_launch kernel;             /* the kernel that takes longest; ms 0: unknown */
  double theoretical;                     /* the highest occupancy that this kernel can have; NAN: unknown */
  gconv_occupancy_limits limits;          /* what a multiprocessor has */

  /* Why warps did not issue an instruction: the reasons with the largest shares of the time of all resident warps, in
   * descending order. The rest of the time went to other reasons, and to issuing. */
  struct {
    char reason[32]; /* NVIDIA's name, such as "long scoreboard"; "" past the last */
    double share;
  } stalls[GCONV_PROFILE_REASONS];
} gconv_profile;

typedef struct gconv_profiler gconv_profiler;

/* Prepares to profile work on the device. GCONV_UNSUPPORTED names what is missing: a GPU, the library, permission. The
 * device must outlive the profiler. gconv_profiler_close() frees *profiler, which is NULL after a failure. */
gconv_status gconv_profiler_open(const gconv_device *device, gconv_profiler **profiler);

/* Calls work(user) several times, because the hardware has few counters. work() must do the same each time, on the device,
 * and return at its end. All kernels that it runs are counted. */
gconv_status gconv_profiler_run(gconv_profiler *profiler, gconv_status (*work)(void *user), void *user,
                                gconv_profile *profile);

/* NULL is allowed. */
void gconv_profiler_close(gconv_profiler *profiler);
