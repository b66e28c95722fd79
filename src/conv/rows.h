/* SPDX-License-Identifier: MIT */
/* Rows for the algorithms of the CPU: from samples of any type, with borders, to float32, and back through the epilogue. */
#ifndef GCONV_CONV_ROWS_H
#define GCONV_CONV_ROWS_H

#include "conv/algorithm.h"

/* Floats of a row that gconv_load_row() writes, rounded up so that rows are aligned, with room for a vector read past it. */
size_t gconv_row_floats(const gconv_problem *problem);

/* Writes row `y` (which may lie outside the image) of the execution's image and plane, with the borders left and right that
 * the filters reach: gconv_reach() pixels, the first of them being column -pad_left. Levels as float32. */
void gconv_load_row(const gconv_execution *execution, int64_t y, float *row);

/* Puts the sums of output row p through the epilogue into the outputs, and alpha that is kept. sums[k * sums_stride + i] is
 * the sum of filter k for sample i of the row (q * channels + c); they are destroyed. */
void gconv_store_row(const gconv_execution *execution, int32_t p, float *sums, size_t sums_stride);

#endif
