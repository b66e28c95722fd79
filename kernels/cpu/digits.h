/* SPDX-License-Identifier: MIT */
/* Computes the algorithm direct on u8 images by sums of integers, on processors that multiply bytes fast. digits.c says why
 * the results have the bits of float32 sums. */
#pragma once

#include "kernels/algorithm.h"

/* Returns whether gconv_digits_execute() may be faster than direct for this problem on this processor. If not, do not call
 * the other functions. */
bool gconv_digits_fit(const gconv_problem *problem);

/* Returns the bytes of workspace that gconv_digits_execute() needs. */
size_t gconv_digits_workspace(const gconv_problem *problem);

/* Returns how many floats gconv_digits_prepare() writes. */
size_t gconv_digits_floats(const gconv_problem *problem);

/* Prepares the taps of a filter. `weights` has the layout of problem.h. */
void gconv_digits_prepare(const gconv_problem *problem, const float *weights, float *prepared);

/* Computes the output rows of the execution. If the taps or the layout of the output do not allow integers, writes nothing
 * and returns false: the caller then sums floats. */
bool gconv_digits_execute(const gconv_execution *execution, const float *prepared);
