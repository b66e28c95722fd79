/* SPDX-License-Identifier: MIT */
/* What single samples of an output should be, in float64, by the machinery of verify.c. */
#ifndef GCONV_CONV_VERIFY_H
#define GCONV_CONV_VERIFY_H

#include "conv/plan.h"

/* Output number k of a pass, of which single responses can be asked for. */
typedef struct gconv_expected gconv_expected;

/* `in` is what is convolved, from row in_row on: the rows of the responses that will be asked for need no others. NULL
 * without memory. */
gconv_expected *gconv_expected_make(const gconv_filter_plan *plan, const gconv_pass *pass, const gconv_image *in,
                                    int32_t in_row, int32_t k);
void gconv_expected_free(gconv_expected *expected); /* NULL is allowed */

/* The header of the output. */
const gconv_image *gconv_expected_output(const gconv_expected *expected);

/* What the sample would be if it were neither clamped nor rounded, where white is 1. Not for the range minmax. */
double gconv_expected_response(const gconv_expected *expected, int32_t frame, int64_t y, int64_t x, int32_t channel);

#endif
