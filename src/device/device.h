/* SPDX-License-Identifier: MIT */
/* A device: the CPU or a GPU, each a small table of functions (device_cpu.c, device_cuda.cu). */
#pragma once

#include "base/both.h"
#include "base/threads.h"
#include "image/gpu_codec.h"

#include <pthread.h>

GCONV_C_BEGIN

typedef struct gconv_device_type {
  const char *name; /* "cpu" */

  /* Describes device number `index` of this type; false past the end. */
  bool (*describe)(int index, gconv_device_info *info);

  /* Sets device->state. The device was described as usable. */
  gconv_status (*open)(gconv_device *device);
  void (*close)(gconv_device *device); /* NULL: it has no state */
  /* Makes it the current device of the calling thread, and the one before the current one again. NULL: there is only one of
   * this type. */
  void (*enter)(const gconv_device *device);
  void (*leave)(void);

  /* The milliseconds of each of `runs` copies of `bytes` within the memory of the device: 2 * bytes over the time is the
   * bandwidth that nothing bound by memory can exceed. */
  gconv_status (*measure_copy)(gconv_device *device, size_t bytes, int runs, double *milliseconds);
  /* The milliseconds of the fastest of a few runs: of *count fused multiply-adds at full rate, and of an empty launch. */
  gconv_status (*measure_fma)(gconv_device *device, double *count, double *milliseconds);
  gconv_status (*measure_launch)(gconv_device *device, double *milliseconds);
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

/* The address of name_cpu or name_cuda, whichever is that of the device. */
extern const gconv_device_type gconv_device_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_device_type gconv_device_type_cuda;
#define GCONV_OF_DEVICE(device, name) ((device)->type == &gconv_device_type_cuda ? &name##_cuda : &name##_cpu)
#else
#define GCONV_OF_DEVICE(device, name) ((void)(device), &name##_cpu)
#endif

/* Between the two, the device is the current one of the thread: where a machine has different GPUs, what algorithms support
 * and cost depends on which one it is, and memory is that of the current one. Calls of the library leave the device that
 * was the caller's. CUDA's own files have gconv_cuda_guest (guest_cuda.h) for both. */
static inline void gconv_device_enter(const gconv_device *device) {
  if (device->type->enter)
    device->type->enter(device);
}
static inline void gconv_device_leave(const gconv_device *device) {
  if (device->type->leave)
    device->type->leave();
}

#ifdef GCONV_WITH_CUDA
/* Of the type cuda: describe(), and whether this process has begun to start CUDA (driver_cuda.cu); the verbs that measure
 * (measure_cuda.cu). */
bool gconv_cuda_describe(int index, gconv_device_info *info);
bool gconv_cuda_is_open(void);
gconv_status gconv_cuda_measure_copy(gconv_device *device, size_t bytes, int runs, double *milliseconds);
gconv_status gconv_cuda_measure_fma(gconv_device *device, double *count, double *milliseconds);
gconv_status gconv_cuda_measure_launch(gconv_device *device, double *milliseconds);

/* The way of data to a GPU, through `work`, and back (trip_cuda.cu). */
typedef enum gconv_trip_memory {
  GCONV_TRIP_PAGEABLE,
  GCONV_TRIP_PINNED,     /* before the first time that is taken */
  GCONV_TRIP_PINNED_ANEW /* each time, and unpinned after it */
} gconv_trip_memory;

typedef struct gconv_trip {
  gconv_trip_memory memory;
  const void *from; /* both in ordinary memory of the host */
  void *to;
  size_t from_bytes, to_bytes;
  gconv_status (*work)(void *user, void *in, void *out, void *stream); /* enqueues work on memory of the device */
  void *user;
} gconv_trip;

typedef struct gconv_trip_times {
  double up_ms, down_ms; /* the copies, by events */
  double whole_ms;       /* from the beginning until all is back, with pinning anew, by the clock */
} gconv_trip_times;

/* Takes the times of `runs` trips, after two others. */
gconv_status gconv_cuda_measure_trips(gconv_device *device, const gconv_trip *trip, int runs, gconv_trip_times *times);

/* Allocates memory of the current device, for cudaFree(). GCONV_NO_MEMORY says how much the device has and how much of it is
 * free, so that a user can do something about it (device_cuda.cu). */
gconv_status gconv_cuda_allocate(const gconv_device *device, size_t bytes, const char *what, void **memory);

/* Copies from ordinary memory of the host to the device, and waits until all bytes are there. cudaMemcpy() alone returns
 * while the last of them may be on their way, and our streams do not wait for its stream: a kernel would read what was there
 * before. */
gconv_status gconv_cuda_upload(void *to, const void *from, size_t bytes);
/* The outcome of an algorithm's execute(), which returned `status`: a failure where one of its launches failed, too
 * (device_cuda.cu). */
gconv_status gconv_cuda_outcome(const gconv_device *device, const char *algorithm, gconv_status status);
#endif

/* The device's decoder, or NULL if none was started (decoder.c). Thread-safe. */
gconv_gpu_decoder *gconv_device_decoder(gconv_device *device);

GCONV_C_END
