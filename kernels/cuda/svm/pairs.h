/* SPDX-License-Identifier: MIT */
/*
 * Sequential minimal optimisation on a GPU, one block of threads a problem. It takes the steps of kernels/cpu/svm/pairs.h in
 * the same order, so results have the same bits.
 *
 * Functions start kernels on `stream` and return at once. Pointers are to device memory.
 */
#pragma once

#include "kernels/svm_problem.h"

#include <cuda_runtime_api.h>

enum { GCONV_SVM_GPU_VARIABLES = 2048 }; /* the most variables of a problem */

/* The problem of a working set. rows[k] is the row of variable k in the kernel matrix of all members. Its value for variable
 * i is rows[k][columns[i]]. */
typedef struct gconv_svm_gpu_small {
  uint32_t count;
  const float *const *rows;
  const uint32_t *columns;
  float *block;           /* workspace: gconv_svm_padded(count) squared floats */
  const double *diagonal; /* this, low, high and F: gconv_svm_padded(count) numbers each */
  const double *low, *high, *F;
  double *b; /* the variables, which the steps change */
  double tolerance;
  uint64_t most;
  const float **moved; /* the rows of the variables that changed, in their order */
  double *by;          /* by how much each of these variables changed */
  uint32_t *moved_count;
  uint64_t *steps;
} gconv_svm_gpu_small;

/* A machine whose whole kernel matrix is in memory. Variable k is member k. */
typedef struct gconv_svm_gpu_machine {
  uint32_t count, pitch;  /* count <= GCONV_SVM_GPU_VARIABLES */
  const float *matrix;    /* count x pitch */
  const double *diagonal; /* diagonal of K; NULL: all are 1 */
  uint32_t first; /* how many variables have c = 1, 0 <= b <= first_cost; the others have c = -1, -second_cost <= b <= 0 */
  double first_cost, second_cost;
  double *b, *g; /* the result, `count` numbers each; g = -Kb */
  double tolerance;
  uint64_t most; /* steps */
} gconv_svm_gpu_machine;

/* How a machine ended. largest: the largest F of variables that may grow; smallest: the smallest F of variables that may
 * shrink. */
typedef struct gconv_svm_gpu_end {
  double largest, smallest;
  uint64_t steps;
  uint32_t failed; /* 1: it did not converge */
} gconv_svm_gpu_end;

/* True if the current device has enough shared memory for problems of this many variables. */
bool gconv_svm_gpu_solves(size_t variables);

/* Takes the steps of gconv_svm_solve_small(), then writes `moved`, `by`, `moved_count` and `steps`. */
void gconv_svm_gpu_solve_small(const gconv_svm_gpu_small *problem, cudaStream_t stream);

/* Solves `count` machines, each by one block. The largest has `most` variables. */
void gconv_svm_gpu_solve_machines(const gconv_svm_gpu_machine *machines, gconv_svm_gpu_end *ends, size_t count, size_t most,
                                  cudaStream_t stream);
