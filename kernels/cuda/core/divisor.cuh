/* SPDX-License-Identifier: MIT */
/* Divisions of indices by numbers that the host knows: a multiplication and a shift, in a quarter of the instructions. */
#pragma once

#include "unroll.cuh"

#include <algorithm>
#include <bit>

namespace {

/* Divides numbers below 2^31 by `by`, from 1 to 2^31 (Granlund and Montgomery, 1994). */
struct divisor {
  uint32_t by, multiplier, shift;

  static divisor of(int64_t by) {
    const uint32_t shift = (uint32_t)std::min<int>(std::bit_width((uint64_t)by - 1), 31);
    return {(uint32_t)by, (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << shift) - (uint64_t)by)) / (uint64_t)by + 1),
            shift};
  }
  DEVICE uint32_t divide(uint32_t n) const {
    return (__umulhi(n, multiplier) + n) >> shift;
  }
};

} // namespace
