/* SPDX-License-Identifier: MIT */
/* Execution of the passes of a plan on a kind of device: a small table of functions (run_cpu.c, run_cuda.cu). */
#ifndef GCONV_CONV_RUN_H
#define GCONV_CONV_RUN_H

#include "base/both.h"
#include "device/device.h"
#include "kernels/algorithm.h"

GCONV_C_BEGIN

/* One problem of a plan and how it is solved. A plan has one pass for all its filters, or, where filters of different sizes
 * have outputs of their own, a pass a filter. */
typedef struct gconv_pass {
  gconv_problem problem;
  float *weights; /* owned by the plan */
  size_t weight_count;
  const gconv_algorithm *algorithm;
  size_t workspace_bytes;
  size_t first_output; /* the outputs of the pass are outputs[first_output ..], one or K */
} gconv_pass;

typedef struct gconv_run_type {
  /* Takes the memory that executing the passes will need: *run, freed by release(). `outputs` are headers of what execute()
   * will write, of all passes. GCONV_NO_MEMORY says how much there is and how much it takes. */
  gconv_status (*prepare)(gconv_device *device, const gconv_pass *passes, size_t count, const gconv_image *outputs,
                          void **run);
  /* Convolves `in` into outputs (images in host memory, their pixels allocated), adding to upload, kernel and download. */
  gconv_status (*execute)(void *run, const gconv_image *in, gconv_image *outputs, gconv_timings *timings);
  void (*release)(void *run);

  /* gconv_plan_measure() of what is on the device. `outputs` have pixels, and get the results. */
  gconv_status (*measure)(void *run, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds);

  /* The output rows from `first` on alone, as many as `outputs` have, which begin with it; or NULL if the device makes
   * images as a whole. `in` begins with row in_row. `first` is a multiple of the row_step() of every pass's algorithm. */
  gconv_status (*execute_rows)(void *run, const gconv_image *in, int32_t in_row, gconv_image *outputs, int32_t first,
                               gconv_timings *timings);

  /* gconv_plan_execute_jpeg(), by the decoder that was started; NULL: there is none for this type. */
  gconv_status (*execute_jpeg)(void *run, const void *jpeg, size_t size, gconv_image *outputs, gconv_timings *timings);
  /* gconv_plan_execute_parts(), of results that it allows: of an image, or, if there is one, of a JPEG. NULL: no results
   * come in parts. */
  gconv_status (*execute_parts)(void *run, const gconv_image *in, const void *jpeg, size_t size, const gconv_taker *taker,
                                gconv_timings *timings);
  /* gconv_plan_held_bytes(), and gconv_plan_png_bytes() of results like this, or 0; NULL: 0. */
  size_t (*held_bytes)(const void *run);
  size_t (*png_bytes)(const gconv_image *output);
  /* As execute(), from and to memory of the device, on a stream of the caller. NULL: that is memory of the host. */
  gconv_status (*execute_device)(void *run, const gconv_image *in, const gconv_image *outputs, void *stream);
} gconv_run_type;

extern const gconv_run_type gconv_run_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_run_type gconv_run_type_cuda;
#endif

/* How many outputs a pass has. */
size_t gconv_pass_outputs(const gconv_pass *pass);

/* Describes where the samples of `in` and `outputs` (the pass's own) are: all of an execution but workspace, part and
 * stream. `targets` has room for one a filter. */
void gconv_bind(const gconv_pass *pass, const gconv_image *in, const gconv_image *outputs, gconv_target *targets,
                gconv_execution *execution);

GCONV_C_END
#endif
