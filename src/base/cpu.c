/* SPDX-License-Identifier: MIT */
#include "base/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static gconv_isa best_isa(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return GCONV_ISA_AVX512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return GCONV_ISA_AVX2;
#endif
  return GCONV_ISA_PLAIN;
}

const char *gconv_isa_name(gconv_isa isa) {
  static const char *const names[] = {"plain", "avx2", "avx512"};
  return names[isa];
}

gconv_isa gconv_cpu_isa(void) {
  static atomic_int known = -1;
  int isa = atomic_load_explicit(&known, memory_order_relaxed);
  if (isa >= 0)
    return (gconv_isa)isa;
  isa = (int)best_isa();
  const char *wanted = getenv("GCONV_ISA");
  for (int lower = 0; wanted && lower < isa; lower++)
    if (strcmp(wanted, gconv_isa_name((gconv_isa)lower)) == 0)
      isa = lower;
  atomic_store_explicit(&known, isa, memory_order_relaxed);
  return (gconv_isa)isa;
}

static bool has_dots(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  return best_isa() == GCONV_ISA_AVX512 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
         !getenv("GCONV_ISA");
#else
  return false;
#endif
}

bool gconv_cpu_dots(void) {
  static atomic_int known = -1;
  int dots = atomic_load_explicit(&known, memory_order_relaxed);
  if (dots < 0) {
    dots = has_dots();
    atomic_store_explicit(&known, dots, memory_order_relaxed);
  }
  return dots > 0;
}
