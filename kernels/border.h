/* SPDX-License-Identifier: MIT */
/* The one definition of border pixels, compiled for the host and for CUDA. */
#pragma once

#include "base/both.h"
#include "gconv.h"

enum { GCONV_OUTSIDE = -1 };

/* Returns the position in 0 .. size - 1 whose sample is used for position `i`, which may be any distance outside. Returns
 * GCONV_OUTSIDE if the border's constant is used (0 for zero). size is at least 1. */
GCONV_BOTH int64_t gconv_border_index(gconv_border border, int64_t i, int64_t size) {
  if (i >= 0 && i < size)
    return i;
  switch (border) {
  case GCONV_BORDER_REPLICATE:
    return i < 0 ? 0 : size - 1;
  case GCONV_BORDER_SYMMETRIC: { /* d c b a | a b c d | d c b a: period 2n */
    int64_t j = i % (2 * size);
    if (j < 0)
      j += 2 * size;
    return j < size ? j : 2 * size - 1 - j;
  }
  case GCONV_BORDER_REFLECT101: { /* d c b | a b c d | c b a: period 2n - 2; a single sample repeats */
    if (size == 1)
      return 0;
    int64_t period = 2 * size - 2, j = i % period;
    if (j < 0)
      j += period;
    return j < size ? j : period - j;
  }
  case GCONV_BORDER_WRAP: {
    int64_t j = i % size;
    return j < 0 ? j + size : j;
  }
  case GCONV_BORDER_ZERO:
  case GCONV_BORDER_CONSTANT:
  case GCONV_BORDER_NORMALIZE: /* zeros whose weight is 0: src/conv/weighted.h */
    break;
  }
  return GCONV_OUTSIDE;
}
