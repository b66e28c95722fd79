/* SPDX-License-Identifier: MIT */
/* Helpers that shorten the code of kernels: functions that are always inlined, loops, divisions, and four floats at a time.
 * UNROLLED_FOR is a loop of constant length that is unrolled, so that arrays that it indexes stay in registers.
 * UNROLLED_2_FOR, UNROLLED_4_FOR and UNROLLED_8_FOR are loops of any length, unrolled by 2, 4 or 8 rounds. ROLLED_FOR is a
 * loop that is not unrolled. */
#pragma once

#define DEVICE __device__ __forceinline__
#define UNROLLED_FOR _Pragma("unroll") for
#define UNROLLED_2_FOR _Pragma("unroll 2") for
#define UNROLLED_4_FOR _Pragma("unroll 4") for
#define UNROLLED_8_FOR _Pragma("unroll 8") for
#define ROLLED_FOR _Pragma("unroll 1") for

#include <stdint.h>

namespace {

/* Returns a / b, rounded up. */
inline int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* Returns a / b for 0 <= a, 0 < b. Uses 32 bits if they suffice, which is several times as fast. */
DEVICE int64_t quotient(int64_t a, int64_t b) {
  return ((a | b) >> 32) == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* Loads four floats from a multiple of 16 bytes. */
DEVICE void load_four(const float *from, float *x) {
  const float4 four = *(const float4 *)from;
  x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

} // namespace
