/* SPDX-License-Identifier: MIT */
/* Computes in float64 what an output should be: verifies whole outputs, or returns single samples. */
#pragma once

#include "conv/hole_sums.h"

/* Compares the outputs of a pass with the definition, as gconv_plan_verify() does. `in` is the image that the filters
 * convolve: the input, or what the stage before them makes of it. `holes` are its samples of no data. */
gconv_status gconv_pass_verify(const gconv_filter_plan *plan, const gconv_pass *pass, const gconv_image *in,
                               const gconv_holes *holes, const gconv_image *outputs, double tolerance, double budget,
                               gconv_verification *result);

/* Output number k of a pass, whose single responses can be computed. */
typedef struct gconv_expected gconv_expected;

/* `in` has the rows of the image to convolve from row in_row on: all rows that the wanted responses need. `holes` are the
 * samples of no data of these rows. Returns NULL without memory. Free with gconv_expected_free(). */
gconv_expected *gconv_expected_make(const gconv_filter_plan *plan, const gconv_pass *pass, const gconv_image *in,
                                    const gconv_holes *holes, int32_t in_row, int32_t k);
void gconv_expected_free(gconv_expected *expected); /* NULL is allowed */

/* Returns the header of the output. */
const gconv_image *gconv_expected_output(const gconv_expected *expected);

/* Returns the channel of the image to convolve from which a channel of the output is made. */
int32_t gconv_expected_channel(const gconv_expected *expected, int32_t channel);

/* Returns the filter that makes a channel of a stack. */
int32_t gconv_expected_filter(const gconv_expected *expected, int32_t channel);

/* Returns the state of a sample. If it is mended, sets *value to the sample before rounding, in the unit of the output. If
 * the plan has a stage after the convolution, the unit is that of the image that this stage gets. */
gconv_sample_state gconv_expected_sample(const gconv_expected *expected, const gconv_hole_row *row, int32_t frame, int64_t y,
                                         int64_t x, int32_t channel, double *value);

/* Returns the sample before it is clamped and rounded, where white is 1; NaN for no data. Not for the range minmax. */
double gconv_expected_response(const gconv_expected *expected, int32_t frame, int64_t y, int64_t x, int32_t channel);
