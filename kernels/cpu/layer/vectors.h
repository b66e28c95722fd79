/* SPDX-License-Identifier: MIT */
/*
 * Includes TEMPLATE once for each kind of vector that this program may choose from at run time, with these macros:
 *
 *   NAME(x)     x with the kind appended
 *   TARGET      the attribute that lets the compiler use its instructions
 *   VECTOR      the type, of LANES floats; there are REGISTERS of them
 *   LOAD(p) STORE(p, v) SPREAD(p) ZERO ADD(a, b) SUB(a, b) FMA(a, b, c)    p need not be aligned; FMA rounds once
 *
 * and defines OF_THIS_PROCESSOR(x): x of the best kind that there is here.
 */
#include "base/cpu.h"

#include <math.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define NAME(x) x##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define VECTOR __m512
#define LANES 16
#define REGISTERS 32
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SPREAD(p) _mm512_set1_ps(*(p))
#define ZERO _mm512_setzero_ps()
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#include TEMPLATE
#include "vectors_end.h"

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR __m256
#define LANES 8
#define REGISTERS 16
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define SPREAD(p) _mm256_broadcast_ss(p)
#define ZERO _mm256_setzero_ps()
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#include TEMPLATE
#include "vectors_end.h"

#define OF_THIS_PROCESSOR(x)                                                                                                \
  (gconv_cpu_isa() == GCONV_ISA_AVX512 ? x##_avx512 : gconv_cpu_isa() == GCONV_ISA_AVX2 ? x##_avx2 : x##_plain)
#else
#define OF_THIS_PROCESSOR(x) (x##_plain)
#endif

#define NAME(x) x##_plain
#define TARGET
#if defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define VECTOR float32x4_t
#define LANES 4
#define REGISTERS 32
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define SPREAD(p) vld1q_dup_f32(p)
#define ZERO vdupq_n_f32(0.0f)
#define ADD(a, b) vaddq_f32(a, b)
#define SUB(a, b) vsubq_f32(a, b)
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#else /* a float at a time, for processors of which nothing is known */
#define VECTOR float
#define LANES 1
#define REGISTERS 16
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SPREAD(p) (*(p))
#define ZERO 0.0f
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define FMA(a, b, c) fmaf(a, b, c)
#endif
#include TEMPLATE
#include "vectors_end.h"
