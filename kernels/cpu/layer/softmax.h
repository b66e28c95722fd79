/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Softmax of `count` places, in place: gconv_softmax() of each, with its bits. Value k of place i is y[k * pitch + i]. */
void gconv_softmax_rows(float *y, int64_t pitch, int64_t filters, int64_t count);
