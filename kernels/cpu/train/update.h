/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/learn_math.h"

#include <stddef.h>

/* Takes a step of gconv_learn_update() with `count` parameters, which are all weights or all biases. */
void gconv_learn_update_range(const gconv_learn_step *step, bool are_weights, size_t count, const float *gradient,
                              float *parameters, float *first, float *second);
