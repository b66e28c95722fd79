/* SPDX-License-Identifier: MIT */
/* A device: the CPU or a GPU, each a small table of functions (device_cpu.c, device_cuda.cu). */
#ifndef GCONV_CONV_DEVICE_H
#define GCONV_CONV_DEVICE_H

#include "base/threads.h"
#include "conv/algorithm.h"
#include "image/gpu_codec.h"

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

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

typedef struct gconv_device_type {
  const char *name; /* "cpu" */

  /* Describes device number `index` of this type; false past the end. */
  bool (*describe)(int index, gconv_device_info *info);

  /* Sets device->state. The device was described as usable. */
  gconv_status (*open)(gconv_device *device);
  void (*close)(gconv_device *device);
  /* Makes it the device that algorithms see when the calling thread asks them; NULL: there is only one of this type. */
  void (*enter)(const gconv_device *device);

  /* Takes the memory that executing the passes will need: *run, freed by release(). `outputs` are headers of what execute()
   * will write, of all passes. GCONV_NO_MEMORY says how much there is and how much it takes. */
  gconv_status (*prepare)(gconv_device *device, const gconv_pass *passes, size_t count, const gconv_image *outputs,
                          void **run);
  /* Convolves `in` into outputs (images in host memory, their pixels allocated), adding to upload, kernel and download. */
  gconv_status (*execute)(void *run, const gconv_image *in, gconv_image *outputs, gconv_timings *timings);
  void (*release)(void *run);

  /* gconv_plan_measure() of what is on the device; `outputs` have pixels, and get the results. The same for a copy of
   * `bytes` within the memory of the device: 2 * bytes over the time is the bandwidth that nothing bound by memory can
   * exceed. */
  gconv_status (*measure)(void *run, const gconv_image *in, gconv_image *outputs, int runs, double *milliseconds);
  gconv_status (*measure_copy)(gconv_device *device, size_t bytes, int runs, double *milliseconds);
  /* The milliseconds of the fastest of a few runs: of *count fused multiply-adds at full rate, and of an empty launch. */
  gconv_status (*measure_fma)(gconv_device *device, double *count, double *milliseconds);
  gconv_status (*measure_launch)(gconv_device *device, double *milliseconds);

  /* The output rows first .. end - 1 of each pass alone, or NULL if the device makes images as a whole. The rows of images
   * that are not there are not touched: row y of `in` is where data + y * row_bytes points, as is row p of an output. first
   * is a multiple of the row_step() of every pass's algorithm. */
  gconv_status (*execute_rows)(void *run, const gconv_image *in, gconv_image *outputs, int32_t first, int32_t end,
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
} gconv_device_type;

struct gconv_device {
  const gconv_device_type *type;
  int index;
  gconv_device_info info;
  gconv_machine machine;  /* what estimates are based on, unless the device was tuned: set by open() */
  gconv_threads *threads; /* for the CPU's algorithms, and for work on the host */
  void *state;
  pthread_mutex_t decoder_lock; /* guards the start of the decoder */
  gconv_gpu_decoder *decoder;   /* NULL until it is started */
};

extern const gconv_device_type gconv_device_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_device_type gconv_device_type_cuda;
#endif

/* To be called before algorithms are asked what they support and cost, and before they prepare weights: where a machine has
 * different GPUs, the answers depend on which one it is. */
static inline void gconv_device_enter(const gconv_device *device) {
  if (device->type->enter)
    device->type->enter(device);
}

#ifdef GCONV_WITH_CUDA
/* Of the type cuda (measure_cuda.cu). */
gconv_status gconv_cuda_measure_fma(gconv_device *device, double *count, double *milliseconds);
gconv_status gconv_cuda_measure_launch(gconv_device *device, double *milliseconds);
/* Allocates memory of the current device, for cudaFree(). GCONV_NO_MEMORY says how much the device has and how much of it is
 * free, so that a user can do something about it (device_cuda.cu). */
gconv_status gconv_cuda_allocate(const gconv_device *device, size_t bytes, const char *what, void **memory);
/* The outcome of an algorithm's execute(), which returned `status`: a failure where one of its launches failed, too
 * (device_cuda.cu). */
gconv_status gconv_cuda_outcome(const gconv_device *device, const char *algorithm, gconv_status status);
#endif

#ifdef GCONV_WITH_CUDA
/* The type's describe(); whether this process has begun to start CUDA (driver_cuda.cu). */
bool gconv_cuda_describe(int index, gconv_device_info *info);
bool gconv_cuda_is_open(void);
#endif

/* The device's decoder, or NULL if none was started (decoder.c). Thread-safe. */
gconv_gpu_decoder *gconv_device_decoder(gconv_device *device);

/* GCONV_BAD_ARGUMENT if a number of runs to measure is below 1. */
gconv_status gconv_check_runs(int runs);

/* How many outputs a pass has. */
size_t gconv_pass_outputs(const gconv_pass *pass);

/* Describes where the samples of `in` and `outputs` (the pass's own) are: all of an execution but workspace, part and
 * stream. `targets` has room for one a filter. */
void gconv_bind(const gconv_pass *pass, const gconv_image *in, const gconv_image *outputs, gconv_target *targets,
                gconv_execution *execution);

/* How many times the work of one thread `threads` of them do together, as they share cores, memory, and a clock that falls
 * with their number. Measured on a Xeon: 4 do 4 times the work of one, 8 do 6 times, and 16 do 12 times. For estimates of a
 * CPU that was not measured. */
double gconv_threads_worth(int threads);

#ifdef __cplusplus
}
#endif
#endif
