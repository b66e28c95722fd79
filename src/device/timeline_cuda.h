/* SPDX-License-Identifier: MIT */
/* A stream of work on a GPU, with an event for each moment of the work that is timed. */
#pragma once

#include "device/cuda_error.h"

enum gconv_moment { BEGIN, UPLOADED, CONVOLVED, ENCODED, DOWNLOADED, MOMENTS };

struct gconv_timeline {
  cudaStream_t stream;
  cudaEvent_t events[MOMENTS];
};

/* Makes a timeline on the current device. *line must be zeros before. Call gconv_timeline_free(), on failure too. A thread
 * that waits for ENCODED sleeps meanwhile. */
static inline gconv_status gconv_timeline_make(gconv_timeline *line) {
  CUDA_TRY(cudaStreamCreateWithFlags(&line->stream, cudaStreamNonBlocking));
  for (int i = 0; i < MOMENTS; i++)
    CUDA_TRY(cudaEventCreateWithFlags(&line->events[i], i == ENCODED ? cudaEventBlockingSync : cudaEventDefault));
  return GCONV_OK;
}

static inline void gconv_timeline_free(gconv_timeline *line) {
  for (int i = 0; i < MOMENTS; i++)
    if (line->events[i])
      cudaEventDestroy(line->events[i]);
  if (line->stream)
    cudaStreamDestroy(line->stream);
  cudaGetLastError();
}

/* Marks the moment when all work that is now in the stream is done. */
static inline gconv_status gconv_timeline_mark(const gconv_timeline *line, gconv_moment moment) {
  return CUDA_STATUS(cudaEventRecord(line->events[moment], line->stream));
}

/* Adds the milliseconds between two moments to *milliseconds. Both moments must have passed. */
static inline gconv_status gconv_timeline_add(const gconv_timeline *line, gconv_moment from, gconv_moment to,
                                              double *milliseconds) {
  float elapsed;
  CUDA_TRY(cudaEventElapsedTime(&elapsed, line->events[from], line->events[to]));
  *milliseconds += elapsed;
  return GCONV_OK;
}

/* Sets *milliseconds to the time of the work that `enqueue` puts into the stream. `enqueue` returns a status. */
template <class Work>
static gconv_status gconv_timeline_time(const gconv_timeline *line, Work enqueue, double *milliseconds) {
  *milliseconds = 0;
  GCONV_TRY(gconv_timeline_mark(line, BEGIN));
  GCONV_TRY(enqueue());
  GCONV_TRY(gconv_timeline_mark(line, CONVOLVED));
  CUDA_TRY(cudaEventSynchronize(line->events[CONVOLVED]));
  return gconv_timeline_add(line, BEGIN, CONVOLVED, milliseconds);
}
