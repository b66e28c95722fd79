/* SPDX-License-Identifier: MIT */
/* The cases of data sets on a GPU: data sets that stay the same and fit are held there; of others, the cases of each step
 * are read on the host, by all its threads, while the GPU works on the step before. */
#ifndef GCONV_TRAIN_CASES_CUDA_H
#define GCONV_TRAIN_CASES_CUDA_H

#include "train/engine.h"

#include <cuda_runtime_api.h>

/* A data set that the device holds. */
typedef struct gconv_held_cases {
  const gconv_dataset *data; /* NULL: none */
  float *inputs, *targets;   /* of the device, normalised */
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
  size_t in, target, room;                /* floats of a case; cases that are loaded at a time, at most */
  float *mean, *std;                      /* of the device; NULL: 0, 1 */
  gconv_held_cases held[GCONV_CUDA_HELD]; /* for training, and for validation */
  size_t *numbers;                        /* of the device: those of gconv_cuda_cases_begin() */
  size_t numbers_room, in_order;          /* how many of them are known to be in order */
  float *staged[GCONV_CUDA_STAGES];       /* pinned: inputs, then targets, of `room` cases */
  float *arrived[GCONV_CUDA_STAGES];      /* of the device: the same, copied while earlier steps run */
  cudaEvent_t there[GCONV_CUDA_STAGES];   /* when it has arrived */
  cudaEvent_t copied[GCONV_CUDA_STAGES];  /* when a stage may be written again, in both places */
  size_t turn;
  gconv_ahead_cases ahead; /* what is in the stage whose turn it is */
  cudaStream_t stream, copying;
} gconv_cuda_cases;

/* `order` must outlive it. Free with gconv_cuda_cases_free(), on failure too. */
gconv_status gconv_cuda_cases_make(const gconv_engine_order *order, size_t room, cudaStream_t stream,
                                   gconv_cuda_cases *made);
void gconv_cuda_cases_free(gconv_cuda_cases *cases);

/* To be called before the cases are loaded. *held: where they are held, or NULL. */
gconv_status gconv_cuda_cases_begin(gconv_cuda_cases *own, const gconv_learn_cases *cases, const gconv_held_cases **held);

/* Writes cases first .. first + count - 1 to x and targets, which are of the device, on the stream. */
gconv_status gconv_cuda_cases_load(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t first, size_t count,
                                   float *x, float *targets);

/* Reads cases 0 .. count - 1 and starts to copy them to the device. If the next gconv_cuda_cases_load() is of the same
 * cases, it takes them from there; if it is of others, or if reading failed here, it reads by itself. */
void gconv_cuda_cases_prepare(gconv_cuda_cases *own, const gconv_learn_cases *cases, size_t count);

#endif
