/* SPDX-License-Identifier: MIT */
/* Which algorithm solves a problem. */
#ifndef GCONV_CONV_CHOOSE_H
#define GCONV_CONV_CHOOSE_H

#include "conv/device.h"

#include <stdio.h>

/* The algorithm that options->algorithm names, or, for "auto", the one that costs least of those that support the problem,
 * can be loaded and are not in options->without. What it costs is its own estimate for this device, times what gconv tune
 * found, and, for a library that is not loaded yet, its start, spread over options->executions. A line for each that was
 * looked at is written to `reasons`.
 * GCONV_BAD_ARGUMENT for names that no algorithm of the device has, GCONV_UNSUPPORTED with the obstacle. */
gconv_status gconv_choose(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                          FILE *reasons, const gconv_algorithm **chosen);

/* Milliseconds that an algorithm which supports the problem is expected to take: by its estimate, times what was measured of
 * such problems, if anything was. */
double gconv_expected_ms(const gconv_problem *problem, const gconv_device *device, const gconv_algorithm *row);

/* What an algorithm that supports the problem costs in such a choice: milliseconds, told in `reasons`. */
double gconv_price(const gconv_problem *problem, const gconv_device *device, const gconv_options *options,
                   const gconv_algorithm *row, FILE *reasons);

#endif
