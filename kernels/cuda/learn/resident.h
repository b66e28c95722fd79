/* SPDX-License-Identifier: MIT */
/*
 * Training of small networks of dense layers that stay in the shared memory of a multiprocessor: weights, what the optimiser
 * keeps, and all values of a batch. One block takes many steps without leaving its kernel. Where a batch has several slices
 * of GCONV_LEARN_SLICE cases, a block computes the gradient of each. The order of all sums is that of
 * kernels/learn_problem.h.
 */
#ifndef GCONV_KERNELS_CUDA_LEARN_RESIDENT_H
#define GCONV_KERNELS_CUDA_LEARN_RESIDENT_H

#include "base/status.h"
#include "layers.h"

enum { GCONV_RESIDENT_STEPS = 1024 }; /* that one kernel takes, at most: some milliseconds */

/* A network that is resident. */
typedef struct gconv_resident gconv_resident;

/* *resident = NULL for a network that does not fit, has other than dense layers, or a softmax that is not that of
 * cross-entropy. Free with gconv_resident_free(); NULL is allowed there. */
gconv_status gconv_resident_make(const gconv_learn_net *net, size_t batch, gconv_resident **resident);
void gconv_resident_free(gconv_resident *resident);

/* What it trains on: cases `numbers` of a data set, in memory of the device. */
typedef struct gconv_resident_run {
  const float *inputs, *targets;
  const size_t *numbers;
  size_t cases;
  float *parameters, *first, *second;
} gconv_resident_run;

/* Whether steps of this optimiser are taken in one kernel; whether a kernel has a block for each slice. NULL is allowed. */
bool gconv_resident_takes_steps(const gconv_resident *resident, gconv_optimizer optimizer);
bool gconv_resident_takes_slices(const gconv_resident *resident);

/* Starts `count` steps of at most `batch` cases, at most GCONV_RESIDENT_STEPS, in one kernel. What step i came to goes to
 * outcomes[i]. A step whose loss is not finite is the last one, and changes nothing. */
gconv_status gconv_resident_start(const gconv_resident *resident, const gconv_resident_run *run,
                                  const gconv_learn_step *steps, size_t count, gconv_learn_outcome *outcomes,
                                  cudaStream_t stream);

/* Starts the chains of gradients of a batch: leaves[i] are those of slice i. */
gconv_status gconv_resident_start_slices(const gconv_resident *resident, const gconv_resident_run *run, float *leaves,
                                         double *losses, uint32_t *hits, cudaStream_t stream);

#endif
