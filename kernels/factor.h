/* SPDX-License-Identifier: MIT */
/* Filters as sums of few outer products of a column and a row, for separable algorithms. */
#pragma once

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest residual that is allowed, relative to sum |tap|. It is as large as a few roundings of the taps. In u8 images,
 * it changes results by at most a few ten-thousandths of a level. */
#define GCONV_FACTOR_TOLERANCE 0x1p-20

/* Finds pairs of a column u (R) and a row v (S) such that taps[r * columns + s] is the sum over pairs of u[r] * v[s], with a
 * residual of at most GCONV_FACTOR_TOLERANCE. structure->rank is the number of pairs. It is GCONV_RANK_HIGH if more than
 * `most` pairs are needed. Sets rank, residual and growth of *structure, for this filter. Filters of small integers of rank
 * 1 (Sobel, binomials, boxes), and many of higher rank, get pairs of integers and a residual of 0. So sums of integer
 * samples stay exact where float32 holds them. pairs (may be NULL) has room for most * (rows + columns) floats: each column
 * is followed by its row. Allocates scratch memory: GCONV_NO_MEMORY. */
gconv_status gconv_factor(const float *taps, int32_t rows, int32_t columns, int32_t most, float *pairs,
                          gconv_structure *structure);

/* Writes the factors of all filters of a problem. For each filter: rank columns of R floats, then rank rows of S floats,
 * where rank is problem->structure.rank; pairs that a filter does not need are 0. `factors` has room for
 * gconv_factor_floats(). */
gconv_status gconv_factor_filters(const gconv_problem *problem, const float *taps, float *factors);

/* Returns the floats of all factors: filters * rank * (R + S). */
size_t gconv_factor_floats(const gconv_problem *problem);

/* Finds the integers of one filter; each is tap / unit. The unit is the largest possible, and 1 if all taps are 0. */
gconv_integers gconv_find_integers(const float *taps, int64_t count);

/* Returns whether float32 holds all sums on the way to a response, because samples and taps are integers. `growth` is that
 * of the structure if pairs are added up, else 1. */
bool gconv_sums_are_exact(const gconv_problem *problem, const gconv_integers *integers, double growth);

/* Returns why separable algorithms do not pay for the filters of a problem, or NULL if they do. */
const char *gconv_factor_obstacle(const gconv_problem *problem);

/* Finds the structure of all filters of a problem. Reads only the problem's sizes, type of samples, and border. */
gconv_status gconv_find_structure(const gconv_problem *problem, const float *taps, gconv_structure *structure);

#ifdef __cplusplus
}
#endif
