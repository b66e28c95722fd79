/* SPDX-License-Identifier: MIT */
/* The sums of direct for bytes, made of integers where this processor multiplies bytes fast. The results have the bits of
 * direct: see digits.c. */
#ifndef GCONV_KERNELS_CPU_DIGITS_H
#define GCONV_KERNELS_CPU_DIGITS_H

#include "kernels/algorithm.h"

/* Whether this processor and the kind of problem are such that gconv_digits_execute() may be of use. If not, the other
 * functions are not to be called. */
bool gconv_digits_fit(const gconv_problem *problem);

/* Bytes of workspace. */
size_t gconv_digits_workspace(const gconv_problem *problem);

/* How many floats of memory gconv_digits_prepare() wants; and what writes them. */
size_t gconv_digits_floats(const gconv_problem *problem);
void gconv_digits_prepare(const gconv_problem *problem, const float *weights, float *prepared);

/* Makes the rows of the execution. Returns false and writes nothing if the taps or the places of the samples do not allow
 * it. */
bool gconv_digits_execute(const gconv_execution *execution, const float *prepared);

#endif
