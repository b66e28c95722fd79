/* SPDX-License-Identifier: MIT */
/*
 * Sequential minimal optimisation of a small dense problem, whose kernel values are all there:
 *
 *     minimise b'Kb / 2 - c'b   where sum b stays what it is, and low[k] <= b[k] <= high[k]
 *
 * Each step moves b by t at i and by -t at j. i is the variable that may grow and whose gradient F = c - Kb is the largest;
 * j is the one that may shrink and promises the largest decrease (Fan, Chen and Lin, "Working set selection using second
 * order information for training support vector machines", 2005). Of equal ones, the first is taken.
 */
#ifndef GCONV_KERNELS_CPU_LEARN_SVM_PAIRS_H
#define GCONV_KERNELS_CPU_LEARN_SVM_PAIRS_H

#include <stddef.h>
#include <stdint.h>

/* All arrays have gconv_svm_padded(count) numbers, aligned to 64 bytes; those beyond count are undefined. */
typedef struct gconv_svm_small {
  size_t count;
  const float *const *rows; /* of kernel values: `padded` numbers each, aligned to 32 bytes */
  double *diagonal;         /* of K */
  const double *low, *high;
  double *b, *F;     /* changed */
  double *up, *down; /* scratch */
} gconv_svm_small;

/* Steps until the largest F of those that may grow is less than `tolerance` above the smallest of those that may shrink, or
 * `most` steps are done. Returns their number. */
uint64_t gconv_svm_solve_small(const gconv_svm_small *problem, double tolerance, uint64_t most);

#endif
