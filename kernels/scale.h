/* SPDX-License-Identifier: MIT */
/* The powers of two that scale numbers before they are split into float16 digits. Host and device compile one text. */
#pragma once

#include "base/both.h"

#include <stdint.h>

/* Returns the exponent that scales a number with the magnitude `bits` into [2^14, 2^15). Then its products are in range, and
 * the low digits of numbers 2^17 times smaller still have all their bits. It is at most 126, because the result is scaled
 * back by 2^-exponent, and 2^-126 is the smallest power of two that no GPU flushes. So numbers from 2^-126 to 2^-112 are
 * scaled into [1, 2^14): their two digits still have 22 bits. Smaller numbers, which are denormal, err by at most 2^-151. */
GCONV_BOTH int gconv_scale_exponent(uint32_t bits) {
  const int exponent = (int)(bits >> 23);
  return exponent == 255 ? 0 : exponent < 15 ? 126 : 14 + 127 - exponent;
}
