/* SPDX-License-Identifier: MIT */
/* What an output should be, in float64: all of it, which is verified, or single samples. */
#ifndef GCONV_CONV_VERIFY_H
#define GCONV_CONV_VERIFY_H

#include "conv/hole_sums.h"

/* Holds the outputs of a pass to the definition: as gconv_plan_verify(). `in` is what is convolved, `holes` its own. */
gconv_status gconv_pass_verify(const gconv_filter_plan *plan, const gconv_pass *pass, const gconv_image *in,
                               const gconv_holes *holes, const gconv_image *outputs, double tolerance, double budget,
                               gconv_verification *result);

/* Output number k of a pass, of which single responses can be asked for. */
typedef struct gconv_expected gconv_expected;

/* `in` is what is convolved, from row in_row on: the rows of the responses that will be asked for need no others. NULL
 * without memory. `holes`: of these rows. */
gconv_expected *gconv_expected_make(const gconv_filter_plan *plan, const gconv_pass *pass, const gconv_image *in,
                                    const gconv_holes *holes, int32_t in_row, int32_t k);
void gconv_expected_free(gconv_expected *expected); /* NULL is allowed */

/* The header of the output. */
const gconv_image *gconv_expected_output(const gconv_expected *expected);

/* The channel of what is convolved that a channel of the output is made of. */
int32_t gconv_expected_channel(const gconv_expected *expected, int32_t channel);

/* The filter that makes it, of one channel of a stack. */
int32_t gconv_expected_filter(const gconv_expected *expected, int32_t channel);

/* *value = what a mended sample is, in units of the output before it is rounded, or, if the plan has a stage after, what
 * that stage gets. */
gconv_sample_state gconv_expected_sample(const gconv_expected *expected, const gconv_hole_row *row, int32_t frame, int64_t y,
                                         int64_t x, int32_t channel, double *value);

/* What the sample would be if it were neither clamped nor rounded, where white is 1; NaN for no data. Not for the range
 * minmax. */
double gconv_expected_response(const gconv_expected *expected, int32_t frame, int64_t y, int64_t x, int32_t channel);

#endif
