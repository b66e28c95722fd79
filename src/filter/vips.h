/* SPDX-License-Identifier: MIT */
/* Tells vips matrices from plain ones. */
#ifndef GCONV_FILTER_VIPS_H
#define GCONV_FILTER_VIPS_H

#include "filter/syntax.h"

/* Returns whether the first line of a text could be that of a vips matrix: 2 to 4 numbers. The first two are width and
 * height: positive integers written with digits only ("3", not "3.0"), within the limits of a filter. */
bool gconv_vips_promises(const gconv_content *content, int32_t *width, int32_t *height);

#endif
