/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Replaces the values of `count` places by their softmax, with the bits of gconv_softmax(). Value k of place i is y[k *
 * pitch + i]. */
void gconv_softmax_rows(float *y, int64_t pitch, int64_t filters, int64_t count);
