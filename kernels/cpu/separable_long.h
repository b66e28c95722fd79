/* SPDX-License-Identifier: MIT */
/* separable for filters of hundreds and thousands of rows or columns, and for filters for which a chain of float32 is not
 * accurate enough. */
#pragma once

#include "kernels/algorithm.h"
#include "kernels/factor.h"

/* Returns the error bound of a sum that is rounded `roundings` times in both directions together. Pairs of integers, whose
 * residual is 0, have exact sums up to 2^24. */
static inline double gconv_separable_bound(const gconv_problem *problem, double roundings) {
  const gconv_structure *structure = &problem->structure;
  if (structure->residual == 0 && gconv_sums_are_exact(problem, &structure->integers, structure->growth))
    return 0;
  return structure->residual + structure->growth * gconv_rounding_bound(roundings + 4);
}

/* Returns whether separable uses these functions: the filter has more than 512 rows or columns, or its chains may be off by
 * more than half a level of the result (problem->accuracy). */
bool gconv_separable_is_long(const gconv_problem *problem);

/* error_bound(), workspace_bytes() and execute() for such problems. gconv_factor_filters() prepares the factors. */
double gconv_separable_long_bound(const gconv_problem *problem);
size_t gconv_separable_long_workspace(const gconv_problem *problem);
void gconv_separable_long(const gconv_execution *execution);
