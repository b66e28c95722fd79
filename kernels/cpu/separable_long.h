/* SPDX-License-Identifier: MIT */
/* separable for filters of hundreds and thousands of taps, and where a chain of float32 is not accurate enough. */
#pragma once

#include "kernels/algorithm.h"

/* The bound of the error if the two directions together have so many roundings. */
static inline double gconv_separable_bound(const gconv_problem *problem, double roundings) {
  return problem->structure.residual + problem->structure.growth * gconv_rounding_bound(roundings + 4);
}

/* Whether separable takes this way: the filter has more than 512 rows or columns, or its chains may be off by more than half
 * a level of the result (problem->accuracy). */
bool gconv_separable_is_long(const gconv_problem *problem);

/* For long problems. gconv_factor_filters() prepares the factors. */
double gconv_separable_long_bound(const gconv_problem *problem);
size_t gconv_separable_long_workspace(const gconv_problem *problem);
void gconv_separable_long(const gconv_execution *execution);
