/* SPDX-License-Identifier: MIT */
#include "base/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MAY_HAVE_TILES
#endif

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

/* Whether the processor has AMX, and Linux lets this process use it. The call asks for the permission. */
static bool has_tiles(void) {
#ifdef MAY_HAVE_TILES
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* of arch_prctl() */
  unsigned a, b, c, d, more = 0;
  const unsigned bfloat16_vectors = 1u << 5, tiles = 1u << 24 | 1u << 22;
  if (best_isa() != GCONV_ISA_AVX512 || getenv("GCONV_ISA") || !__get_cpuid_count(7, 1, &more, &b, &c, &d) ||
      !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return false;
  return (more & bfloat16_vectors) && (d & tiles) == tiles && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return false;
#endif
}

/* Returns the result of find(), which is called once. *known is -1 before. */
static bool find_once(atomic_int *known, bool (*find)(void)) {
  int found = atomic_load_explicit(known, memory_order_relaxed);
  if (found < 0) {
    found = find();
    atomic_store_explicit(known, found, memory_order_relaxed);
  }
  return found > 0;
}

bool gconv_cpu_dots(void) {
  static atomic_int known = -1;
  return find_once(&known, has_dots);
}

bool gconv_cpu_tiles(void) {
  static atomic_int known = -1;
  return find_once(&known, has_tiles);
}
