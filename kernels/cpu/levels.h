/* SPDX-License-Identifier: MIT */
/* Converts four vectors of values to levels, for the loops that keep sums in registers. */
#ifndef GCONV_KERNELS_CPU_LEVELS_H
#define GCONV_KERNELS_CPU_LEVELS_H

#include "base/cpu.h"
#include "kernels/pixel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define GCONV_AVX512_LEVELS __attribute__((target("avx512f,avx512bw"))) GCONV_INLINE

/* Stores 64 integers as samples of u8 or u16, with saturation. Pack instructions work on quarters of a vector, so the
 * quarters are put in order afterwards. If `count` is less than 64, only the first `count` samples are stored. */
GCONV_AVX512_LEVELS void gconv_put_integers_avx512(gconv_type type, const __m512i *values, size_t count, uint8_t *to) {
  const __m512i bytes = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i words = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const uint64_t stored = count < 64 ? ((uint64_t)1 << count) - 1 : UINT64_MAX;
  if (type == GCONV_U8) {
    const __m512i first = _mm512_packs_epi32(values[0], values[1]), last = _mm512_packs_epi32(values[2], values[3]);
    const __m512i all = _mm512_permutexvar_epi32(bytes, _mm512_packus_epi16(first, last));
    if (count >= 64)
      _mm512_storeu_si512(to, all);
    else
      _mm512_mask_storeu_epi8(to, stored, all);
    return;
  }
  const __m512i first = _mm512_permutexvar_epi64(words, _mm512_packus_epi32(values[0], values[1]));
  const __m512i last = _mm512_permutexvar_epi64(words, _mm512_packus_epi32(values[2], values[3]));
  _mm512_mask_storeu_epi16(to, (__mmask32)stored, first);
  _mm512_mask_storeu_epi16(to + 64, (__mmask32)(stored >> 32), last);
}

/* Rounds 64 values to levels as gconv_to_level() does, by instructions that convert and saturate, and stores them. min()
 * keeps a NaN, which becomes the least integer, and then 0. */
GCONV_AVX512_LEVELS void gconv_put_levels_avx512(gconv_type type, const __m512 *values, uint8_t *to) {
  const __m512 white = _mm512_set1_ps(gconv_white(type));
  __m512i integers[4];
  for (int v = 0; v < 4; v++)
    integers[v] = _mm512_cvtps_epi32(_mm512_min_ps(white, values[v]));
  gconv_put_integers_avx512(type, integers, 64, to);
}

/* Does what gconv_put_levels_avx512() does with the first `count` of 64 values, which are all below 2^31. */
GCONV_AVX512_LEVELS void gconv_put_bounded_levels_avx512(gconv_type type, const __m512 *values, size_t count, uint8_t *to) {
  __m512i integers[4];
  for (int v = 0; v < 4; v++)
    integers[v] = _mm512_cvtps_epi32(values[v]);
  gconv_put_integers_avx512(type, integers, count, to);
}

#endif
#endif
