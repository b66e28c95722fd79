/* SPDX-License-Identifier: MIT */
/*
 * How tensor cores multiply the numbers of dense layers. Each struct is one precision. A fragment is a lane's part of a
 * factor, for 16 values of the summation index l. The lane has l = 2 t, 2 t + 1, 8 + 2 t and 9 + 2 t, where t is its number
 * in a group of four lanes. The instructions number the values of l in another way; a sum does not depend on these numbers.
 *
 *   numbers_a(rows, f)    makes a fragment of the left factor, of two rows that are eight apart
 *   numbers_b(column, f)  makes a fragment of the right factor, of one column
 *   add(a, b, sums)       sums[i][0 .. 3] += the products of the 16 x 8 numbers of a[i] and b
 */
#pragma once

#include "../core/unroll.cuh"

#include <cuda_runtime.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ON_TENSOR_CORES(...) asm(__VA_ARGS__)
#else
#define ON_TENSOR_CORES(...) (void)0 /* GPUs before Ampere lack these instructions */
#endif

namespace {

DEVICE void multiply_tf32(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  ON_TENSOR_CORES(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* Products of 3 x tf32: each factor is the sum of two numbers of tf32, `high` and `low`, and the product of the two low
 * parts is left out. Relative errors of products are below 2^-20. Tensor cores add with fewer bits than float32 has, so they
 * add the products of 16 values of l, and float32 adds these sums. */
struct three_tf32 {
  struct fragment_a {
    uint32_t high[8], low[8];
  };
  struct fragment_b {
    uint32_t high[4], low[4];
  };
  /* Rounds to nearest by adding half of the last bit that stays. If x is NaN, so is `low`. */
  static DEVICE void cut(float x, uint32_t &high, uint32_t &low) {
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
  }
  static DEVICE void numbers_a(const float (&rows)[2][4], fragment_a &f) {
    UNROLLED_FOR (int i = 0; i < 8; i++)
      cut(rows[i % 2][i / 4 * 2 + i / 2 % 2], f.high[i], f.low[i]);
  }
  static DEVICE void numbers_b(const float (&column)[4], fragment_b &f) {
    UNROLLED_FOR (int i = 0; i < 4; i++)
      cut(column[i], f.high[i], f.low[i]);
  }
  static DEVICE void multiply(float (&sum)[4], const uint32_t (&a)[8], const uint32_t (&b)[4], int half) {
    multiply_tf32(sum, a[4 * half], a[4 * half + 1], a[4 * half + 2], a[4 * half + 3], b[2 * half], b[2 * half + 1]);
  }
  template <int COUNT> static DEVICE void add(const fragment_a (&a)[COUNT], const fragment_b &b, float (*sums)[4]) {
    float parts[2][COUNT][4] = {}; /* two chains, as each instruction waits for the one before it in its chain */
    UNROLLED_FOR (int half = 0; half < 2; half++)
      UNROLLED_FOR (int i = 0; i < COUNT; i++)
        multiply(parts[half][i], a[i].low, b.high, half);
    UNROLLED_FOR (int half = 0; half < 2; half++)
      UNROLLED_FOR (int i = 0; i < COUNT; i++)
        multiply(parts[half][i], a[i].high, b.low, half);
    UNROLLED_FOR (int half = 0; half < 2; half++)
      UNROLLED_FOR (int i = 0; i < COUNT; i++)
        multiply(parts[half][i], a[i].high, b.high, half);
    UNROLLED_FOR (int i = 0; i < COUNT; i++)
      UNROLLED_FOR (int j = 0; j < 4; j++)
        sums[i][j] += parts[0][i][j] + parts[1][i][j];
  }
};

struct one_tf32 {
  struct fragment_a {
    uint32_t all[8];
  };
  struct fragment_b {
    uint32_t all[4];
  };
  static DEVICE uint32_t rounded(float x) {
    uint32_t bits = 0;
    ON_TENSOR_CORES("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
  }
  static DEVICE void numbers_a(const float (&rows)[2][4], fragment_a &f) {
    UNROLLED_FOR (int i = 0; i < 8; i++)
      f.all[i] = rounded(rows[i % 2][i / 4 * 2 + i / 2 % 2]);
  }
  static DEVICE void numbers_b(const float (&column)[4], fragment_b &f) {
    UNROLLED_FOR (int i = 0; i < 4; i++)
      f.all[i] = rounded(column[i]);
  }
  template <int COUNT> static DEVICE void add(const fragment_a (&a)[COUNT], const fragment_b &b, float (*sums)[4]) {
    UNROLLED_FOR (int half = 0; half < 2; half++)
      UNROLLED_FOR (int i = 0; i < COUNT; i++)
        multiply_tf32(sums[i], a[i].all[4 * half], a[i].all[4 * half + 1], a[i].all[4 * half + 2], a[i].all[4 * half + 3],
                      b.all[2 * half], b.all[2 * half + 1]);
  }
};

} // namespace
