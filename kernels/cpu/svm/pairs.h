/* SPDX-License-Identifier: MIT */
/*
 * Sequential minimal optimisation (SMO) of a small dense problem, whose kernel matrix K is in memory:
 *
 *     minimise b'Kb / 2 - c'b   subject to sum b = constant and low[k] <= b[k] <= high[k]
 *
 * Each step changes two variables, b[i] += t and b[j] -= t, by the t that minimises the objective within the bounds:
 *
 *     F = c - Kb, the negative gradient     t = (F[i] - F[j]) / (K[i][i] + K[j][j] - 2 K[i][j])
 *
 * i has the largest F of the variables that may grow. Of the variables that may shrink, j promises the largest decrease of
 * the objective, (F[i] - F[j])^2 / (K[i][i] + K[j][j] - 2 K[i][j]). This choice is LIBSVM's (Fan, Chen and Lin, "Working set
 * selection using second order information for training support vector machines", 2005). Of equal candidates, the first is
 * taken. SMO was invented by Platt, "Fast training of support vector machines using sequential minimal optimization", 1999.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* All arrays have gconv_svm_padded(count) numbers, aligned to 64 bytes. Numbers from `count` on are undefined. */
typedef struct gconv_svm_small {
  size_t count;
  const float *const *rows; /* rows of K, aligned to 32 bytes */
  double *diagonal;         /* the diagonal of K */
  const double *low, *high;
  double *b, *F;     /* the variables, and the negative gradient; both are updated */
  double *up, *down; /* scratch */
} gconv_svm_small;

/* Takes steps until the gap is below `tolerance`, but at most `most` steps. Returns the number of steps. The gap is the
 * largest F of the variables that may grow, minus the smallest F of the variables that may shrink. */
uint64_t gconv_svm_solve_small(const gconv_svm_small *problem, double tolerance, uint64_t most);
