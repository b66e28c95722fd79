/* SPDX-License-Identifier: MIT */
/*
 * Vector code for this processor, from one source.
 *
 * GCONV_VECTORIZED(name, (parameters), (arguments)) defines `static void name(parameters)` from an always-inline function
 * name_body(parameters). The function is compiled three times, for AVX-512, for AVX2 with FMA and BMI2, and for the plain
 * target; one is chosen at run time. Wide vectors are one reason why the first two are faster. The other is that fmaf(), and
 * a shift by a variable, are one instruction there. For the plain target, fmaf() is a library call.
 */
#pragma once

#include <stdbool.h>

#define GCONV_INLINE static inline __attribute__((always_inline))

typedef enum gconv_isa { GCONV_ISA_PLAIN, GCONV_ISA_AVX2, GCONV_ISA_AVX512 } gconv_isa;

/* Returns the best kind of instructions that this processor has. $GCONV_ISA ("plain", "avx2", "avx512") lowers it, so that
 * tests reach each kind. */
gconv_isa gconv_cpu_isa(void);

/* Returns whether fmaf() is an instruction. On x86 before AVX2 it is a call, which takes a hundred times as long. */
static inline bool gconv_cpu_fuses(void) {
#if defined(__x86_64__) || defined(__i386__)
  return gconv_cpu_isa() != GCONV_ISA_PLAIN;
#else
  return true;
#endif
}

/* Returns whether this processor has instructions of 512 bits that multiply bytes in fours and add them up (VNNI), and that
 * pick bytes from a vector (VBMI). Returns false if $GCONV_ISA is set: with "avx512", tests reach the code that does without
 * these instructions. */
bool gconv_cpu_dots(void);

/* Returns whether this processor multiplies tiles of bfloat16 (AMX), and the system lets this process do so. Returns false
 * if $GCONV_ISA is set. */
bool gconv_cpu_tiles(void);

/* Returns "avx512", "avx2" or "plain". */
const char *gconv_isa_name(gconv_isa isa);

#if defined(__x86_64__) && defined(__GNUC__)
#ifdef __clang__ /* clang does not know the attribute */
#define GCONV_WIDE_VECTORS ""
#else
#define GCONV_WIDE_VECTORS ",prefer-vector-width=512"
#endif
#define GCONV_VECTORIZED(name, parameters, arguments)                                                                       \
  __attribute__((target(                                                                                                    \
      "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2" GCONV_WIDE_VECTORS))) static void name##_avx512 parameters {       \
    name##_body arguments;                                                                                                  \
  }                                                                                                                         \
  __attribute__((target("avx2,fma,bmi2"))) static void name##_avx2 parameters {                                             \
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

/* GCONV_VECTOR_LOOP(name, (parameters), (arguments)) { statements } defines both name_body(), which has these statements,
 * and name(). */
#define GCONV_VECTOR_LOOP(name, parameters, arguments)                                                                      \
  GCONV_INLINE void name##_body parameters;                                                                                 \
  GCONV_VECTORIZED(name, parameters, arguments)                                                                             \
  GCONV_INLINE void name##_body parameters
