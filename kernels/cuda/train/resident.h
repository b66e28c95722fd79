/* SPDX-License-Identifier: MIT */
/*
 * Training of small dense networks with small batches (at most GCONV_LEARN_SLICE cases) in the shared memory of
 * multiprocessors, which holds the weights, the optimiser's arrays and all values of a batch. One kernel takes many steps,
 * with one block or a cluster of four. All sums have the order of kernels/learn_problem.h.
 */
#pragma once

#include "base/status.h"
#include "layers.h"

enum { GCONV_RESIDENT_STEPS = 1024 }; /* the most steps of a kernel: some milliseconds */

/* A network in shared memory. */
typedef struct gconv_resident gconv_resident;

/* Makes *resident, which is NULL if the network or the batch does not fit, if a layer is not dense, or if a softmax is not
 * the last layer with cross-entropy. Free with gconv_resident_free(), which allows NULL. */
gconv_status gconv_resident_make(const gconv_learn_net *net, size_t batch, gconv_resident **resident);
void gconv_resident_free(gconv_resident *resident);

/* True if the network fits with the arrays of this optimiser. NULL is allowed. */
bool gconv_resident_takes(const gconv_resident *resident, gconv_optimizer optimizer);
/* Returns the most steps that one call of gconv_resident_start() may take. */
size_t gconv_resident_steps(const gconv_resident *resident);

/* The arguments of gconv_resident_start(). Pointers are to device memory; outcomes and bad may be pinned host memory. */
typedef struct gconv_resident_run {
  const float *inputs, *targets; /* inputs and targets of a data set */
  const size_t *numbers;         /* the numbers of the cases to take */
  size_t cases;
  float *parameters, *first, *second;
  gconv_learn_outcome *outcomes; /* outcomes of each step */
  uint32_t *bad;                 /* becomes 1 if a parameter is not finite */
} gconv_resident_run;

/* Starts `count` steps. outcomes[i] is the result of step i. A step whose loss is not finite changes nothing, and is the
 * last. */
gconv_status gconv_resident_start(gconv_resident *resident, const gconv_resident_run *run, const gconv_learn_step *steps,
                                  size_t count, cudaStream_t stream);
