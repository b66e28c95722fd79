/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Each of `count` places has `filters` values: value k of place i is y[k * pitch + i]. Replaces the values of each place by
 * their softmax, with the bits of gconv_softmax(). */
void gconv_softmax_rows(float *y, int64_t pitch, int64_t filters, int64_t count);
