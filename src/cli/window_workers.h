/* SPDX-License-Identifier: MIT */
/* The workers of --windows: from the samples of a signal to rows of numbers. */
#pragma once

#include "base/samples.h"
#include "cli/window_timings.h"
#include "cli/windows.h"

#include <pthread.h>

enum { GCONV_READ_FLOATS = 1 << 14 /* floats that are read at a time */ };

/* A plan for some windows at a time; NULL until it is needed. */
typedef struct gconv_window_group {
  gconv_plan *plan;
  int32_t windows;
} gconv_window_group;

/* What computes a batch at a time. */
typedef struct gconv_window_engine {
  pthread_mutex_t lock;        /* held by the worker that computes; if each has an engine, nobody waits */
  gconv_window_group all, few; /* for a whole batch, and for a few windows at a time */
} gconv_window_engine;

typedef struct gconv_window_worker {
  struct gconv_window_run *windows;
  gconv_window_engine *engine;
  pthread_t thread;
  gconv_image in, out; /* the batch: a frame a window */
  size_t count;        /* windows, of windows->batch at most */
  uint64_t number;     /* the number of the batch, in the order of the signal */
  double read_ms;      /* when its last sample had come */
} gconv_window_worker;

typedef struct gconv_window_run {
  const gconv_windows_task *task;
  gconv_network network;
  gconv_device *device;
  gconv_operation *operation;
  gconv_image like; /* header of a window, as the network sees it */
  gconv_samples samples;
  gconv_rows rows;
  size_t window, hop, channels;       /* samples of a window, and from one window to the next; channels of a sample */
  size_t input_floats, output_floats; /* floats of a window, and of its row */
  bool alone;                         /* each engine has one thread */
  int32_t batch;                      /* windows that a batch may have */
  gconv_window_engine *engines;
  gconv_window_worker *workers;
  int engine_count, worker_count;

  /* Only for the worker that reads, and holds this lock. */
  pthread_mutex_t reading;
  float *held; /* samples that were read: held[begin .. end) */
  size_t room, begin, end;
  uint64_t skip;    /* numbers to pass over before the next window */
  uint64_t found;   /* windows read so far */
  uint64_t batches; /* batches read so far */
  bool read_all;

  /* For all workers, guarded by this lock. Only `timings`, and `rows` above, need no lock: the worker whose turn it is to
   * write uses them. */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t written; /* batches written so far */
  gconv_window_timings timings;
  bool stop; /* a batch has failed: no more are wanted */
  gconv_status status;
  gconv_message message; /* message of the first failure */
} gconv_window_run;

/* Makes the plan of a group for `count` windows. */
gconv_status gconv_window_make_group(const gconv_window_run *w, int32_t count, gconv_window_group *g);

/* Does the work, with the caller's thread as the first worker. If the system refuses threads, fewer workers do it. */
gconv_status gconv_window_run_workers(gconv_window_run *w);
