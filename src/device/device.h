/* SPDX-License-Identifier: MIT */
/* A device: the CPU or a GPU. Each kind is a small table of functions (device_cpu.c, device_cuda.cu). */
#pragma once

#include "base/both.h"
#include "base/threads.h"
#include "image/gpu_codec.h"

#include <pthread.h>

GCONV_C_BEGIN

typedef struct gconv_device_type {
  const char *name; /* "cpu" */

  /* Describes device number `index` of this type. Returns false past the end. */
  bool (*describe)(int index, gconv_device_info *info);

  /* Sets device->state. The device was described as usable. */
  gconv_status (*open)(gconv_device *device);
  void (*close)(gconv_device *device); /* NULL: it has no state */
  /* enter() makes the device the current one of the calling thread. leave() makes the device before it the current one
   * again. NULL: there is only one device of this type. */
  void (*enter)(const gconv_device *device);
  void (*leave)(void);

  /* Measures the milliseconds of each of `runs` copies of `bytes` within the memory of the device. 2 * bytes over the time
   * is the bandwidth of the memory, an upper limit for all work. */
  gconv_status (*measure_copy)(gconv_device *device, size_t bytes, int runs, double *milliseconds);
  /* Both measure the milliseconds of the fastest of a few runs: measure_fma() of *count fused multiply-adds at full rate,
   * and measure_launch() of an empty launch. */
  gconv_status (*measure_fma)(gconv_device *device, double *count, double *milliseconds);
  gconv_status (*measure_launch)(gconv_device *device, double *milliseconds);
} gconv_device_type;

struct gconv_device {
  const gconv_device_type *type;
  int index;
  gconv_device_info info;
  gconv_machine machine;  /* for estimates, unless the device was tuned; set by open() */
  gconv_threads *threads; /* for the CPU's algorithms, and for work on the host */
  void *state;
  pthread_mutex_t decoder_lock; /* protects the start of the decoder */
  gconv_gpu_decoder *decoder;   /* NULL until it is started */
};

/* GCONV_OF_DEVICE() is the address of name_cpu or name_cuda, by the type of the device. */
extern const gconv_device_type gconv_device_type_cpu;
#ifdef GCONV_WITH_CUDA
extern const gconv_device_type gconv_device_type_cuda;
#define GCONV_OF_DEVICE(device, name) ((device)->type == &gconv_device_type_cuda ? &name##_cuda : &name##_cpu)
#else
#define GCONV_OF_DEVICE(device, name) ((void)(device), &name##_cpu)
#endif

/* Between gconv_device_enter() and gconv_device_leave(), the device is the current one of the thread. Memory is allocated on
 * the current GPU. If a machine has different GPUs, what algorithms support and cost depends on the current one, too. A call
 * of the library ends with the caller's device as the current one. Files of CUDA use gconv_cuda_guest (guest_cuda.h)
 * instead. */
static inline void gconv_device_enter(const gconv_device *device) {
  if (device->type->enter)
    device->type->enter(device);
}
static inline void gconv_device_leave(const gconv_device *device) {
  if (device->type->leave)
    device->type->leave();
}

#ifdef GCONV_WITH_CUDA
/* Functions of the type cuda. gconv_cuda_describe() is describe(). gconv_cuda_is_open() returns whether this process has
 * begun to start CUDA (driver_cuda.cu). The others measure (measure_cuda.cu). */
bool gconv_cuda_describe(int index, gconv_device_info *info);
bool gconv_cuda_is_open(void);
gconv_status gconv_cuda_measure_copy(gconv_device *device, size_t bytes, int runs, double *milliseconds);
gconv_status gconv_cuda_measure_fma(gconv_device *device, double *count, double *milliseconds);
gconv_status gconv_cuda_measure_launch(gconv_device *device, double *milliseconds);

/* A trip of data to a GPU, through `work`, and back (trip_cuda.cu). This is the memory of the host: */
typedef enum gconv_trip_memory {
  GCONV_TRIP_PAGEABLE,
  GCONV_TRIP_PINNED,     /* pinned before the first trip */
  GCONV_TRIP_PINNED_ANEW /* pinned in each trip, and unpinned after it */
} gconv_trip_memory;

typedef struct gconv_trip {
  gconv_trip_memory memory;
  const void *from; /* `from` and `to` are in ordinary memory of the host */
  void *to;
  size_t from_bytes, to_bytes;
  gconv_status (*work)(void *user, void *in, void *out, void *stream); /* enqueues work on memory of the device */
  void *user;
} gconv_trip;

typedef struct gconv_trip_times {
  double up_ms, down_ms; /* the copies, measured by events */
  double whole_ms;       /* from the beginning until all data are back, by the clock; includes pinning, if each trip pins */
} gconv_trip_times;

/* Measures `runs` trips, after two trips that are not measured. */
gconv_status gconv_cuda_measure_trips(gconv_device *device, const gconv_trip *trip, int runs, gconv_trip_times *times);

/* Allocates memory of the current device; release it with cudaFree(). GCONV_NO_MEMORY comes with a text: how much memory the
 * device has, and how much is free, so that the user can act (device_cuda.cu). */
gconv_status gconv_cuda_allocate(const gconv_device *device, size_t bytes, const char *what, void **memory);

/* Copies from ordinary memory of the host to the device, and waits until all bytes are there. cudaMemcpy() may return before
 * the last bytes have arrived, and our streams do not wait for its stream. So a kernel could read old bytes. */
gconv_status gconv_cuda_upload(void *to, const void *from, size_t bytes);
/* Returns the outcome of an algorithm's execute(), which returned `status`. It is also a failure if a launch failed
 * (device_cuda.cu). */
gconv_status gconv_cuda_outcome(const gconv_device *device, const char *algorithm, gconv_status status);
#endif

/* Returns the device's decoder, or NULL if it was not started (decoder.c). Thread-safe. */
gconv_gpu_decoder *gconv_device_decoder(gconv_device *device);

GCONV_C_END
