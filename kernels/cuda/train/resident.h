/* SPDX-License-Identifier: MIT */
/*
 * Training of small dense networks in the shared memory of multiprocessors, which holds the weights, the optimiser's arrays
 * and all values of a batch. One kernel takes many steps. A batch of one slice (GCONV_LEARN_SLICE cases) is trained by one
 * block or a cluster of four. With several slices, blocks compute the gradients of slices, wait for each other, and update
 * the parameters together. All sums have the order of kernels/learn_problem.h.
 */
#pragma once

#include "base/status.h"
#include "layers.h"

enum {
  GCONV_RESIDENT_STEPS = 1024, /* the most steps of a kernel: some milliseconds */
  GCONV_RESIDENT_PASSES = 256, /* the most steps of a kernel if a batch has several slices */
  GCONV_RESIDENT_SLICES = 1024 /* the most slices of a batch */
};

/* A network in shared memory. */
typedef struct gconv_resident gconv_resident;

/* Makes *resident, which is NULL if the network or the batch does not fit, if a layer is not dense, or if a softmax is not
 * the last layer with cross-entropy. Free with gconv_resident_free(), which allows NULL. */
gconv_status gconv_resident_make(const gconv_learn_net *net, size_t batch, gconv_resident **resident);
void gconv_resident_free(gconv_resident *resident);

/* True if the network fits with the arrays of this optimiser. NULL is allowed. */
bool gconv_resident_takes(const gconv_resident *resident, gconv_optimizer optimizer);
/* True if a batch has several slices. Then all steps of a gconv_resident_start() have the same cases. */
bool gconv_resident_has_slices(const gconv_resident *resident);
/* Returns the most steps that one call of gconv_resident_start() may take. */
size_t gconv_resident_steps(const gconv_resident *resident);

/* The arguments of gconv_resident_start(). Pointers are to device memory; outcomes and bad may be pinned host memory. */
typedef struct gconv_resident_run {
  const float *inputs, *targets; /* inputs and targets of a data set */
  const size_t *numbers;         /* the numbers of the cases to take */
  size_t cases;
  bool same; /* the same cases in the same order as in the last call */
  float *parameters, *first, *second;
  const uint8_t *are_weights;    /* for each parameter */
  gconv_learn_outcome *outcomes; /* outcomes of each step */
  uint32_t *bad;                 /* becomes 1 if a parameter is not finite */
  /* With several slices: if loss * factor < best_loss, the parameters before the step are copied to `best`. */
  float *best;
  double factor, best_loss;
} gconv_resident_run;

/* Starts `count` steps. outcomes[i] is the result of step i. A step whose loss is not finite changes nothing, and is the
 * last. */
gconv_status gconv_resident_start(gconv_resident *resident, const gconv_resident_run *run, const gconv_learn_step *steps,
                                  size_t count, cudaStream_t stream);
