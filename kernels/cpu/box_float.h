/* SPDX-License-Identifier: MIT */
/* box for floats, and for integers whose sums have more than 32 bits. */
#pragma once

#include "kernels/algorithm.h"

/* Functions of the descriptor of box (box.c), for such problems. */
size_t gconv_box_float_workspace(const gconv_problem *problem);
void gconv_box_float(const gconv_execution *execution);
double gconv_box_float_bound(const gconv_problem *problem);
/* Returns the nanoseconds that a thread takes for a sample. */
double gconv_box_float_ns(const gconv_problem *problem);
