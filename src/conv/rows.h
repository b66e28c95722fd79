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

/* Writes pixels of row `y` (which may lie outside the image) of the execution's image and plane: `count` of them, from
 * column `first` on, `step` columns apart, with the border where they lie outside. Levels as float32. */
void gconv_load_pixels(const gconv_execution *execution, int64_t y, int64_t first, int64_t step, int64_t count, float *row);

/* Asks for the memory of what gconv_load_pixels() with a step of 1 will read, and of what gconv_store_samples() will write,
 * ahead of time: rows of an image are too far apart for the processor to foresee the next one. */
void gconv_expect_load(const gconv_execution *execution, int64_t y, int64_t first, int64_t count);
void gconv_expect_store(const gconv_execution *execution, int32_t p, size_t first, size_t count);

/* Puts the sums of output row p through the epilogue into the outputs, and alpha that is kept. sums[k * sums_stride + i] is
 * the sum of filter k for sample i of the row (q * channels + c); they are destroyed. */
void gconv_store_row(const gconv_execution *execution, int32_t p, float *sums, size_t sums_stride);

/* The same for a part of the row: `count` samples from sample `first` on, both whole pixels; sums[k * sums_stride] is that
 * of filter k for sample `first`. */
void gconv_store_samples(const gconv_execution *execution, int32_t p, size_t first, size_t count, float *sums,
                         size_t sums_stride);

#endif
