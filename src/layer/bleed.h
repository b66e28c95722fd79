/* SPDX-License-Identifier: MIT */
/* Colours of transparent pixels. Nobody sees them, but a network does: black ones would darken the rim of opaque areas. So a
 * network gets the colours of the nearest pixels that are not transparent. */
#pragma once

#include "gconv.h"

enum { GCONV_BLEED = 8 }; /* transparent pixels that are farther away keep their colours */

/* Makes *out a copy of `in`, which is interleaved and has alpha, with other colours where alpha is 0. The caller frees it. A
 * row depends on GCONV_BLEED rows on either side. */
gconv_status gconv_bleed(const gconv_image *in, gconv_image *out);
