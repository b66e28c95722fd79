/* SPDX-License-Identifier: MIT */
/* Executes the passes of a plan on a kind of device: a small table of functions (run_cpu.c, run_cuda.cu). */
#pragma once

#include "base/both.h"
#include "device/device.h"
#include "kernels/algorithm.h"

GCONV_C_BEGIN

/* A problem of a plan, and the algorithm that solves it. Usually one pass has all filters of the plan. If filters of
 * different sizes have outputs of their own, each filter has a pass. */
typedef struct gconv_pass {
  gconv_problem problem;
  float *weights; /* owned by the plan */
  size_t weight_count;
  const gconv_algorithm *algorithm;
  size_t workspace_bytes;
  size_t first_output; /* the pass has outputs[first_output ..]: one, or K */
} gconv_pass;

typedef struct gconv_run_type {
  /* Allocates the memory that execute() will need. release() frees *run. `outputs` are headers of the outputs of all
   * passes, which execute() will write. The text of GCONV_NO_MEMORY says how much memory there is, and how
   * much is needed. */
  gconv_status (*prepare)(gconv_device *device, const gconv_pass *passes, size_t count, const gconv_image *outputs,
                          void **run);
  /* Convolves `in` into outputs, images in host memory whose pixels are allocated. Adds to upload_ms, kernel_ms and
   * download_ms of `timings`. */
  gconv_status (*execute)(void *run, const gconv_image *in, gconv_image *outputs, gconv_timings *timings);
  void (*release)(void *run);

  /* Implements gconv_plan_measure(), for the work of the device alone. `outputs` have pixels, and get the results. */
  gconv_status (*measure)(void *run, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds);

  /* Makes the output rows that `outputs` have, from row `first` on. `in` begins with row in_row. `first` is
   * a multiple of the row_step() of every pass's algorithm. NULL: the device only makes whole images. */
  gconv_status (*execute_rows)(void *run, const gconv_image *in, int32_t in_row, gconv_image *outputs, int32_t first,
                               gconv_timings *timings);

  /* Implements gconv_plan_execute_jpeg() by the device's decoder, which must have been started. NULL: this kind of device
   * has no decoder. */
  gconv_status (*execute_jpeg)(void *run, const void *jpeg, size_t size, gconv_image *outputs, gconv_timings *timings);
  /* Implements gconv_plan_execute_parts(): from the image `in`, or, if `jpeg` is not NULL, from that JPEG. NULL: no results
   * come in parts. */
  gconv_status (*execute_parts)(void *run, const gconv_image *in, const void *jpeg, size_t size, const gconv_taker *taker,
                                gconv_timings *timings);
  /* Implement gconv_plan_held_bytes() and, for results like `output`, gconv_plan_png_bytes(). Each may be NULL. */
  size_t (*held_bytes)(const void *run);
  size_t (*png_bytes)(const gconv_image *output);
  /* Does what execute() does, from and to memory of the device, on a stream of the caller. NULL: the device uses host
   * memory. */
  gconv_status (*execute_device)(void *run, const gconv_image *in, const gconv_image *outputs, void *stream);
} gconv_run_type;

extern const gconv_run_type gconv_run_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_run_type gconv_run_type_cuda;
#endif

/* Returns how many outputs a pass has. */
size_t gconv_pass_outputs(const gconv_pass *pass);

/* Fills an execution with where the samples of `in` and of the pass's `outputs` are. Leaves out its workspace, part and
 * stream. `targets` has room for one target a filter. */
void gconv_bind(const gconv_pass *pass, const gconv_image *in, const gconv_image *outputs, gconv_target *targets,
                gconv_execution *execution);

GCONV_C_END
