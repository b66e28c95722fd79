/* SPDX-License-Identifier: MIT */
/*
 * Vector code for the processor at hand, from one source.
 *
 * GCONV_VECTORIZED(name, (parameters), (arguments)) defines `static void name(parameters)` out of an always-inline function
 * name_body(parameters): compiled for AVX-512, for AVX2 with FMA, and for the plain target, and chosen at run time. What
 * matters for speed besides the width is that fmaf() is one instruction in the first two and a library call in the last.
 */
#ifndef GCONV_BASE_CPU_H
#define GCONV_BASE_CPU_H

#define GCONV_INLINE static inline __attribute__((always_inline))

typedef enum gconv_isa { GCONV_ISA_PLAIN, GCONV_ISA_AVX2, GCONV_ISA_AVX512 } gconv_isa;

/* The best of them that this processor has. $GCONV_ISA ("plain", "avx2", "avx512") lowers it, so that tests reach each. */
gconv_isa gconv_cpu_isa(void);

/* "avx512", "avx2" or "plain" */
const char *gconv_isa_name(gconv_isa isa);

#if defined(__x86_64__) && defined(__GNUC__)
#ifdef __clang__ /* which does not know it */
#define GCONV_WIDE_VECTORS ""
#else
#define GCONV_WIDE_VECTORS ",prefer-vector-width=512"
#endif
#define GCONV_VECTORIZED(name, parameters, arguments)                                                                       \
  __attribute__((                                                                                                           \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma" GCONV_WIDE_VECTORS))) static void name##_avx512 parameters {     \
    name##_body arguments;                                                                                                  \
  }                                                                                                                         \
  __attribute__((target("avx2,fma"))) static void name##_avx2 parameters {                                                  \
    name##_body arguments;                                                                                                  \
  }                                                                                                                         \
  static void name##_plain parameters {                                                                                     \
    name##_body arguments;                                                                                                  \
  }                                                                                                                         \
  static void name parameters {                                                                                             \
    gconv_isa isa = gconv_cpu_isa();                                                                                        \
    if (isa == GCONV_ISA_AVX512)                                                                                            \
      name##_avx512 arguments;                                                                                              \
    else if (isa == GCONV_ISA_AVX2)                                                                                         \
      name##_avx2 arguments;                                                                                                \
    else                                                                                                                    \
      name##_plain arguments;                                                                                               \
  }
#else
#define GCONV_VECTORIZED(name, parameters, arguments)                                                                       \
  static void name parameters {                                                                                             \
    name##_body arguments;                                                                                                  \
  }
#endif

#endif
