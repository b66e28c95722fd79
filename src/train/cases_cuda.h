/* SPDX-License-Identifier: MIT */
/* The cases of data sets on a GPU. A data set that fits, and is the same in each epoch, is held on the GPU. For other data
 * sets, all threads of the host read the cases of a step while the GPU works on the step before. */
#pragma once

#include "kernels/cuda/train/layers.h"
#include "train/engine.h"

#include <cuda_runtime_api.h>

/* A data set that the device holds. */
typedef struct gconv_held_cases {
  const gconv_dataset *data; /* NULL: none */
  float *inputs, *targets;   /* in device memory, normalised */
} gconv_held_cases;

enum { GCONV_CUDA_HELD = 2, GCONV_CUDA_STAGES = 2 };

/* A batch that was read before its step. */
typedef struct gconv_ahead_cases {
  const gconv_dataset *data;
  uint64_t epoch;
  size_t *numbers, count; /* count 0: there is none */
} gconv_ahead_cases;

typedef struct gconv_cuda_cases {
  const gconv_engine_order *order;
  size_t in, target, room; /* in, target: floats of a case's input and target; room: the most cases at a time */
  float *mean, *std;       /* in device memory; NULL: 0, 1 */
  gconv_held_cases held[GCONV_CUDA_HELD]; /* for training, and for validation */
  size_t *numbers;                        /* in device memory: numbers of the cases of the last gconv_cuda_cases_begin() */
  size_t numbers_room, in_order;          /* in_order: how many of `numbers` are 0, 1, 2 ... */
  float *staged[GCONV_CUDA_STAGES];       /* pinned: inputs, then targets, of `room` cases */
  float *arrived[GCONV_CUDA_STAGES];      /* in device memory: `staged`, copied while earlier steps run */
  cudaEvent_t there[GCONV_CUDA_STAGES];   /* recorded when `arrived` is complete */
  cudaEvent_t copied[GCONV_CUDA_STAGES];  /* recorded when both buffers of a stage may be written again */
  size_t turn;
  gconv_ahead_cases ahead; /* the cases in the next stage */
  cudaStream_t stream, copying;
} gconv_cuda_cases;

/* `order` must outlive *made. Free with gconv_cuda_cases_free(), on failure too. */
gconv_status gconv_cuda_cases_make(const gconv_engine_order *order, size_t room, cudaStream_t stream,
                                   gconv_cuda_cases *made);
void gconv_cuda_cases_free(gconv_cuda_cases *cases);

/* Call it before the cases are loaded. *held: the data set if the device holds it, or NULL. */
gconv_status gconv_cuda_cases_begin(gconv_cuda_cases *own, const gconv_learn_cases *cases, const gconv_held_cases **held);

/* Enqueues on the stream: writes cases first .. first + count - 1 to x and targets, in device memory. */
gconv_status gconv_cuda_cases_load(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t first, size_t count,
                                   float *x, float *targets);
/* Does the same for the next of several steps, whose cases the device holds: they begin at number control->begun * batch. */
void gconv_cuda_cases_take(const gconv_cuda_cases *own, const gconv_held_cases *held, const gconv_learn_control *control,
                           size_t count, float *x, float *targets);

/* Reads cases 0 .. count - 1, and starts to copy them to the device. The next gconv_cuda_cases_load() uses them if it asks
 * for the same cases. Otherwise, or if reading failed, it reads by itself. */
void gconv_cuda_cases_prepare(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t count);
