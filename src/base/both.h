/* SPDX-License-Identifier: MIT */
/* Macros for code that is compiled for the host and for CUDA from one text, so that both do the same. */
#pragma once

#include <stdint.h>

/* Around the declarations of functions of C in a header that CUDA's C++ reads, too. */
#ifdef __cplusplus
#define GCONV_C_BEGIN extern "C" {
#define GCONV_C_END }
#else
#define GCONV_C_BEGIN
#define GCONV_C_END
#endif

#ifdef __CUDACC__
#define GCONV_BOTH static __host__ __device__ __forceinline__
#else
#define GCONV_BOTH static inline __attribute__((always_inline))
#endif

/* Returns the number of the highest bit of `value`, which must not be 0. */
GCONV_BOTH unsigned gconv_highest_bit(uint32_t value) {
#ifdef __CUDA_ARCH__
  return 31 - (unsigned)__clz((int)value);
#else
  return 31 - (unsigned)__builtin_clz(value);
#endif
}

/* Returns the number of the lowest bit of `value`, which must not be 0. */
GCONV_BOTH unsigned gconv_lowest_bit(uint64_t value) {
#ifdef __CUDA_ARCH__
  return (unsigned)__ffsll((long long)value) - 1;
#else
  return (unsigned)__builtin_ctzll(value);
#endif
}
