/* SPDX-License-Identifier: MIT */
/* The kinds of numbers that tensor cores multiply, and how a float32 becomes digits of them (tensor.cuh). */
#pragma once

#include "hopper.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

namespace tensor {

/* Pairs of 16-bit numbers. */
struct half_pair {
  typedef __half2 type;
  __host__ __device__ static __forceinline__ type round(float a, float b) {
    return __floats2half2_rn(a, b);
  }
  __host__ __device__ static __forceinline__ float2 back(type v) {
    return __half22float2(v);
  }
};
struct bfloat_pair {
  typedef __nv_bfloat162 type;
  __host__ __device__ static __forceinline__ type round(float a, float b) {
    return __floats2bfloat162_rn(a, b);
  }
  __host__ __device__ static __forceinline__ float2 back(type v) {
    return __bfloat1622float2(v);
  }
};

/* Splits v into two digits, packed. `low` is written only if asked for. */
template <class PAIR> struct sixteen_bits {
  static constexpr int U = 8;
  typedef uint16_t number;
  template <bool LOW>
  __device__ static __forceinline__ void pack(const float (&v)[U], uint32_t (&high)[4], uint32_t (&low)[4]) {
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      const typename PAIR::type h = PAIR::round(v[2 * i], v[2 * i + 1]);
      high[i] = *(const uint32_t *)&h;
      if (LOW) {
        const float2 back = PAIR::back(h);
        const typename PAIR::type l = PAIR::round(v[2 * i] - back.x, v[2 * i + 1] - back.y);
        low[i] = *(const uint32_t *)&l;
      }
    }
  }
  static number round(float v, float *left) {
    const typename PAIR::type h = PAIR::round(v, 0);
    *left = v - PAIR::back(h).x;
    number bits;
    memcpy(&bits, &h, sizeof bits);
    return bits;
  }
};

struct fp16 : sixteen_bits<half_pair> {
  static constexpr bool SCALED = true;
#ifdef HOPPER
  __device__ static __forceinline__ void multiply(float (&c)[128], uint64_t a, uint64_t b, uint32_t add) {
    hopper::multiply_fp16(c, a, b, add);
  }
  __device__ static __forceinline__ void multiply(float (&c)[64], const uint4 &a, uint64_t b, uint32_t add) {
    hopper::multiply_fp16(c, a, b, add);
  }
#endif
};

struct bf16 : sixteen_bits<bfloat_pair> { /* two of its digits would not be enough */
  static constexpr bool SCALED = false;
#ifdef HOPPER
  __device__ static __forceinline__ void multiply(float (&c)[128], uint64_t a, uint64_t b, uint32_t add) {
    hopper::multiply_bf16(c, a, b, add);
  }
#endif
};

struct tf32 {
  static constexpr int U = 4;
  static constexpr bool SCALED = false;
  typedef uint32_t number;
  __device__ static __forceinline__ uint32_t nearest(float v) {
    uint32_t bits = __float_as_uint(v);
#ifdef HOPPER
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
#endif
    return bits;
  }
  template <bool LOW>
  __device__ static __forceinline__ void pack(const float (&v)[U], uint32_t (&high)[4], uint32_t (&low)[4]) {
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      high[i] = nearest(v[i]);
      if (LOW)
        low[i] = nearest(v[i] - __uint_as_float(high[i]));
    }
  }
  static number round(float v, float *left) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
      bits = (bits + 0x1000) & ~0x1fffu;
    float h;
    memcpy(&h, &bits, sizeof h);
    *left = v - h;
    return bits;
  }
#ifdef HOPPER
  __device__ static __forceinline__ void multiply(float (&c)[128], uint64_t a, uint64_t b, uint32_t add) {
    hopper::multiply_tf32(c, a, b, add);
  }
#endif
};

/* Returns the exponent that scales a number with the magnitude `bits` into [2^14, 2^15). Then its products are in range, and
 * the low digits of numbers 2^17 times smaller still have all their bits. */
__host__ __device__ inline int scale_exponent(uint32_t bits) {
  const int exponent = (int)(bits >> 23);
  return exponent == 255 ? 0 : exponent < 21 ? 120 : 14 + 127 - exponent;
}
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float((uint32_t)(exponent + 127) << 23);
}

} // namespace tensor
