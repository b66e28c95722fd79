/* SPDX-License-Identifier: MIT */
/* What tells matrices of vips from plain ones. */
#ifndef GCONV_FILTER_VIPS_H
#define GCONV_FILTER_VIPS_H

#include "filter/syntax.h"

/* Whether the first line of a text could be that of a vips matrix: 2 to 4 numbers, of which the first two, width and height,
 * are positive integers written in digits alone ("3", not "3.0") and within the limits of a filter. */
bool gconv_vips_promises(const gconv_content *content, int32_t *width, int32_t *height);

#endif
