/* SPDX-License-Identifier: MIT */
/*
 * Training of small networks of dense layers that stay in the shared memory of multiprocessors: weights, what the optimiser
 * keeps, and all values of a batch. Batches of one slice (GCONV_LEARN_SLICE cases) are trained by one block, or by a
 * cluster of four, which take many steps without leaving their kernel. Of larger ones, blocks compute the gradients of
 * slices, meet, and change the parameters together, step after step. The order of all sums is that of
 * kernels/learn_problem.h.
 */
#ifndef GCONV_KERNELS_CUDA_TRAIN_RESIDENT_H
#define GCONV_KERNELS_CUDA_TRAIN_RESIDENT_H

#include "base/status.h"
#include "layers.h"

enum {
  GCONV_RESIDENT_STEPS = 1024, /* that are started at a time, at most: some milliseconds */
  GCONV_RESIDENT_PASSES = 256, /* the same, of all cases at once */
  GCONV_RESIDENT_SLICES = 1024 /* of a batch, at most */
};

/* A network that is resident. */
typedef struct gconv_resident gconv_resident;

/* *resident = NULL for a network that does not fit, has other than dense layers, or a softmax that is not that of
 * cross-entropy; or for a larger batch. Free with gconv_resident_free(); NULL is allowed there. */
gconv_status gconv_resident_make(const gconv_learn_net *net, size_t batch, gconv_resident **resident);
void gconv_resident_free(gconv_resident *resident);

/* Whether it takes steps of this optimiser; NULL is allowed. How many at a time, at most. Steps of several slices that are
 * taken at a time all have the same cases. */
bool gconv_resident_takes(const gconv_resident *resident, gconv_optimizer optimizer);
bool gconv_resident_has_slices(const gconv_resident *resident);
size_t gconv_resident_steps(const gconv_resident *resident);

/* What it trains on. Pointers are to memory of the device, but outcomes and bad may be the host's, pinned. */
typedef struct gconv_resident_run {
  const float *inputs, *targets; /* of a data set, of which it takes ... */
  const size_t *numbers;         /* ... these cases */
  size_t cases;
  bool same; /* the very cases of the call before, in their order */
  float *parameters, *first, *second;
  const uint8_t *are_weights;    /* of each parameter */
  gconv_learn_outcome *outcomes; /* of each step */
  uint32_t *bad;                 /* becomes 1 if a parameter is not finite */
  /* Of several slices: where loss * factor < best_loss, the parameters before the step go to `best`. */
  float *best;
  double factor, best_loss;
} gconv_resident_run;

/* Starts `count` steps. What step i came to goes to outcomes[i]. A step whose loss is not finite is the last one, and
 * changes nothing. */
gconv_status gconv_resident_start(gconv_resident *resident, const gconv_resident_run *run, const gconv_learn_step *steps,
                                  size_t count, cudaStream_t stream);

#endif
