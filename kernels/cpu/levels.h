/* SPDX-License-Identifier: MIT */
/* Converts four vectors of values to levels, for the loops that keep sums in registers. */
#ifndef GCONV_KERNELS_CPU_LEVELS_H
#define GCONV_KERNELS_CPU_LEVELS_H

#include "base/cpu.h"
#include "kernels/pixel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Rounds 64 values to levels as gconv_to_level() does, by instructions that convert and saturate, and stores them. min()
 * keeps a NaN, which becomes the least integer, and then 0. Pack instructions work on quarters of a vector, so the quarters
 * are put in order afterwards. */
__attribute__((target("avx512f,avx512bw"))) GCONV_INLINE void gconv_put_levels_avx512(gconv_type type, const __m512 *values,
                                                                                      uint8_t *to) {
  const __m512 white = _mm512_set1_ps(gconv_white(type));
  const __m512i bytes = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i words = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512i a = _mm512_cvtps_epi32(_mm512_min_ps(white, values[0]));
  const __m512i b = _mm512_cvtps_epi32(_mm512_min_ps(white, values[1]));
  const __m512i c = _mm512_cvtps_epi32(_mm512_min_ps(white, values[2]));
  const __m512i d = _mm512_cvtps_epi32(_mm512_min_ps(white, values[3]));
  if (type == GCONV_U8) {
    const __m512i quarters = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(bytes, quarters));
    return;
  }
  _mm512_storeu_si512(to, _mm512_permutexvar_epi64(words, _mm512_packus_epi32(a, b)));
  _mm512_storeu_si512(to + 64, _mm512_permutexvar_epi64(words, _mm512_packus_epi32(c, d)));
}

#endif
#endif
