/* SPDX-License-Identifier: MIT */
/*
 * Vector code for each kind of processor from one text. This file includes the file TEMPLATE, a macro, once for each kind,
 * with the macros below. They are undefined afterwards. GCONV_CALL_ISA(name, (arguments)) calls the function that was
 * defined for this processor; OF_THIS_PROCESSOR(x) is the object x for this processor, such as x_avx2.
 *
 *   NAME(x)    x with the kind appended: _avx512, _avx2, _plain (which is NEON on 64-bit ARM)
 *   TARGET     the attribute that lets the compiler use the instructions of this kind
 *   VECTOR     the type of a vector of LANES floats; + - * work on it. The processor has REGISTERS vector registers
 *   VECTORS    how many vectors gconv_tile_rows() uses side by side (tile.c)
 *   KEEP(v)    forces the loaded v into a register; without it, compilers would load v again for each use
 *   LOAD_U8(p) LOAD_U16(p)    load LANES bytes, or words of 16 bits, and convert them to floats
 *   LOAD(p) STORE(p, v) SPREAD(p) ZERO FMA(a, b, c)    p need not be aligned; FMA is a * b + c, rounded once
 *   ADD_PRODUCT(a, b, c)    a * b + c, but rounded twice where FMA would be a call
 *   AT_LEAST(v, low)    v < low ? low : v, lane by lane: NaN and -0 stay
 *   AT_MOST(v, high)    v > high ? high : v, lane by lane: NaN stays
 *   NONZERO(v)    an unsigned number whose bit i is set if lane i of v is not 0, or is NaN
 *   UNROLL     before a loop of constant length: unrolls it
 *
 * If OF_DOUBLES is defined before, the vectors have doubles: NAME, TARGET, REAL, VECTOR, LANES, LOAD, STORE, SPREAD, ZERO,
 * KEEP and ADD_PRODUCT are defined. REAL is float or double.
 *
 * TO_6(X) is X(1) X(2) ... X(6): it makes a function, or a row of a table, for each size of a tile.
 */
#include "base/cpu.h"

#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
typedef uint32_t __attribute__((aligned(1), may_alias)) unaligned_word; /* four bytes, wherever they lie */
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_BY_COUNT /* clang unrolls loops of a known count by itself, and warns about the pragma on other loops */
#else
#define UNROLL _Pragma("GCC unroll 24")
#define UNROLL_BY_COUNT UNROLL
#endif

#ifdef OF_DOUBLES
#define REAL double
#else
#define REAL float
#endif

#define TO_4(X) X(1) X(2) X(3) X(4)
#define TO_5(X) TO_4(X) X(5)
#define TO_6(X) TO_5(X) X(6)
#define TO_8(X) TO_6(X) X(7) X(8)
#define TO_9(X) TO_8(X) X(9)
#define TO_14(X) TO_9(X) X(10) X(11) X(12) X(13) X(14)

#if defined(__x86_64__) && defined(__GNUC__)

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define KEEP(v) __asm__("" : "+v"(v))
#ifdef OF_DOUBLES
#define VECTOR __m512d
#define LANES 8
#define LOAD(p) _mm512_loadu_pd(p)
#define STORE(p, v) _mm512_storeu_pd(p, v)
#define SPREAD(p) _mm512_set1_pd(*(p))
#define ZERO _mm512_setzero_pd()
#define ADD_PRODUCT(a, b, c) _mm512_fmadd_pd(a, b, c)
#else
#define VECTOR __m512
#define VECTORS 4
#define LANES 16
#define REGISTERS 32
#define LOAD(p) _mm512_loadu_ps(p)
#define LOAD_U8(p) _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define LOAD_U16(p) _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(p))))
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPREAD(p) _mm512_set1_ps(*(p))
#define ZERO _mm512_setzero_ps()
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD_PRODUCT FMA
#define AT_LEAST(v, low) _mm512_max_ps(low, v)
#define AT_MOST(v, high) _mm512_min_ps(high, v)
#define NONZERO(v) ((unsigned)_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ))
#endif
#include "each_isa_once.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define KEEP(v) __asm__("" : "+x"(v))
#ifdef OF_DOUBLES
#define VECTOR __m256d
#define LANES 4
#define LOAD(p) _mm256_loadu_pd(p)
#define STORE(p, v) _mm256_storeu_pd(p, v)
#define SPREAD(p) _mm256_broadcast_sd(p)
#define ZERO _mm256_setzero_pd()
#define ADD_PRODUCT(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
#define VECTOR __m256
#define VECTORS 2
#define LANES 8
#define REGISTERS 16
#define LOAD(p) _mm256_loadu_ps(p)
#define LOAD_U8(p) _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p))))
#define LOAD_U16(p) _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p))))
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SPREAD(p) _mm256_broadcast_ss(p)
#define ZERO _mm256_setzero_ps()
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD_PRODUCT FMA
#define AT_LEAST(v, low) _mm256_max_ps(low, v)
#define AT_MOST(v, high) _mm256_min_ps(high, v)
#define NONZERO(v) ((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ)))
#endif
#include "each_isa_once.h"

#define OF_THIS_PROCESSOR(x)                                                                                                \
  (gconv_cpu_isa() == GCONV_ISA_AVX512 ? x##_avx512 : gconv_cpu_isa() == GCONV_ISA_AVX2 ? x##_avx2 : x##_plain)
#define GCONV_CALL_ISA(name, arguments)                                                                                     \
  do {                                                                                                                      \
    gconv_isa called_isa = gconv_cpu_isa();                                                                                 \
    if (called_isa == GCONV_ISA_AVX512)                                                                                     \
      name##_avx512 arguments;                                                                                              \
    else if (called_isa == GCONV_ISA_AVX2)                                                                                  \
      name##_avx2 arguments;                                                                                                \
    else                                                                                                                    \
      name##_plain arguments;                                                                                               \
  } while (0)

#else
#define OF_THIS_PROCESSOR(x) (x##_plain)
#define GCONV_CALL_ISA(name, arguments) name##_plain arguments
#endif

#define NAME(x) x##_plain
#define TARGET
#if defined(__ARM_NEON) && defined(__aarch64__) && !defined(OF_DOUBLES)

#define VECTOR float32x4_t
#define VECTORS 4
#define LANES 4
#define REGISTERS 32
#define LOAD(p) vld1q_f32(p)
#define LOAD_U8(p) vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(*(const unaligned_word *)(const void *)(p))))))
#define LOAD_U16(p) vcvtq_f32_u32(vmovl_u16(vld1_u16(p)))
#define STORE(p, v) vst1q_f32(p, v)
#define SPREAD(p) vld1q_dup_f32(p)
#define ZERO vdupq_n_f32(0.0f)
#define KEEP(v) __asm__("" : "+w"(v))
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define ADD_PRODUCT FMA
#define AT_LEAST(v, low) vbslq_f32(vcltq_f32(v, low), low, v)
#define AT_MOST(v, high) vbslq_f32(vcgtq_f32(v, high), high, v)
#define NONZERO(v) vaddvq_u32(vbicq_u32((uint32x4_t){1, 2, 4, 8}, vceqzq_f32(v)))

#else /* one number at a time, for unknown processors */

#define VECTOR REAL
#define VECTORS 2
#define LANES 1
#define REGISTERS 16
#define LOAD(p) (*(p))
#define LOAD_U8(p) ((float)*(p))
#define LOAD_U16(p) ((float)*(p))
#define STORE(p, v) (*(p) = (v))
#define SPREAD(p) (*(p))
#define ZERO ((REAL)0)
#define KEEP(v)
#define FMA(a, b, c) fmaf(a, b, c)
#define ADD_PRODUCT(a, b, c) ((a) * (b) + (c))
#define AT_LEAST(v, low) ((v) < (low) ? (low) : (v))
#define AT_MOST(v, high) ((v) > (high) ? (high) : (v))
#define NONZERO(v) ((v) != 0 ? 1u : 0u)

#endif
#include "each_isa_once.h"
#undef TEMPLATE
#undef REAL
#undef OF_DOUBLES
