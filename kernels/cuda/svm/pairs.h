/* SPDX-License-Identifier: MIT */
/*
 * Sequential minimal optimisation in one block of threads: the steps of kernels/cpu/svm/pairs.h, one for one, so that
 * the results have the same bits. A thread keeps the gradients of some variables in registers; where they are largest is
 * found by the whole numbers that order as they do, in three reductions of a warp, then over the warps.
 *
 * Functions start kernels on `stream` and return at once. Pointers are to memory of the device.
 */
#ifndef GCONV_KERNELS_CUDA_LEARN_SVM_PAIRS_H
#define GCONV_KERNELS_CUDA_LEARN_SVM_PAIRS_H

#include "kernels/svm_problem.h"

#include <cuda_runtime_api.h>

enum { GCONV_SVM_GPU_VARIABLES = 2048 }; /* of a problem, at most */

/* The problem of a working set. Rows of kernel values are those of all members: row k has the value at variable i in column
 * columns[i]. */
typedef struct gconv_svm_gpu_small {
  uint32_t count;
  const float *const *rows;
  const uint32_t *columns;
  float *block;           /* scratch: count x pitch, both as many as count, padded */
  const double *diagonal; /* and low, high, F: gconv_svm_padded(count) numbers each */
  const double *low, *high, *F;
  double *b; /* changed */
  double tolerance;
  uint64_t most;
  const float **moved; /* the rows of those that moved, in their order */
  double *by;          /* and by how much */
  uint32_t *moved_count;
  uint64_t *steps;
} gconv_svm_gpu_small;

/* A machine whose matrix is all there: rows of `pitch` floats, count <= GCONV_SVM_GPU_VARIABLES. Variable k is member k. */
typedef struct gconv_svm_gpu_machine {
  uint32_t count, pitch;
  const float *matrix;
  const double *diagonal; /* of K; NULL: all are 1 */
  uint32_t first;         /* variables that have c = 1, 0 <= b <= first_cost; others c = -1, -second_cost <= b <= 0 */
  double first_cost, second_cost;
  double *b, *g; /* of the result: `count` numbers each; g = -Kb */
  double tolerance;
  uint64_t most; /* steps */
} gconv_svm_gpu_machine;

/* How a machine ended: F of those that may grow, of those that may shrink, when they were looked at last. */
typedef struct gconv_svm_gpu_end {
  double largest, smallest;
  uint64_t steps;
  uint32_t failed; /* it did not converge */
} gconv_svm_gpu_end;

/* Whether the device that is current has the shared memory that problems of so many variables take. */
bool gconv_svm_gpu_solves(size_t variables);

/* Steps as gconv_svm_solve_small() does, then tells what moved. */
void gconv_svm_gpu_solve_small(const gconv_svm_gpu_small *problem, cudaStream_t stream);

/* Solves whole machines, one for each block; the largest has `most` variables. */
void gconv_svm_gpu_solve_machines(const gconv_svm_gpu_machine *machines, gconv_svm_gpu_end *ends, size_t count, size_t most,
                                  cudaStream_t stream);

#endif
