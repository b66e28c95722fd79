/* SPDX-License-Identifier: MIT */
/* Which algorithm solves a problem. */
#ifndef GCONV_CONV_CHOOSE_H
#define GCONV_CONV_CHOOSE_H

#include "device/device.h"
#include "kernels/algorithm.h"
#include "operation/tuning.h"

#include <stdio.h>

/* The algorithm that options->algorithm names, or, for "auto", the cheapest of those that support the problem, are not made
 * of a library and are not in options->without. The price is the algorithm's own estimate, times what was measured of such
 * problems (tuning.h). So it follows from the problem, the kind of device, and the user's file of gconv tune if there is
 * one; nothing else enters, neither threads nor memory nor other images. A line for each algorithm is written to `reasons`.
 * GCONV_BAD_ARGUMENT for names that no algorithm of the device has, GCONV_UNSUPPORTED with the obstacle. */
gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen);

/* What was measured over what was estimated, of problems like this. */
double gconv_problem_ratio(const gconv_problem *problem, const gconv_tuning *tuning, const gconv_algorithm *row);

#endif
