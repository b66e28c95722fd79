/* SPDX-License-Identifier: MIT */
#include "image/png_literals.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <stdbool.h>

#define FEATURES "avx512f,avx512bw,avx512vbmi,bmi2"
#define VBMI __attribute__((target(FEATURES), always_inline)) static inline

typedef struct table {
  __m512i part[4];
} table;

VBMI table load_table(const uint8_t *bytes) {
  table result;
  for (int i = 0; i < 4; i++)
    result.part[i] = _mm512_load_si512(bytes + 64 * i);
  return result;
}

VBMI __m512i look_up(const table *t, __m512i index) {
  __m512i lower = _mm512_permutex2var_epi8(t->part[0], index, t->part[1]);
  __m512i upper = _mm512_permutex2var_epi8(t->part[2], index, t->part[3]);
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), lower, upper);
}

/* The codes of 64 literals, joined by four, and how many bits each four has; of eight, the first four stand in `first`. */
typedef struct fours {
  __m512i first, second, first_count, second_count;
} fours;

/* Neighbours stand in the halves of wider and wider lanes. */
VBMI fours join_by_four(const table *low_table, const table *high_table, const table *count_table, __m512i literals) {
  const __m512i low8 = _mm512_set1_epi16(0xff), low16 = _mm512_set1_epi32(0xffff), low32 = _mm512_set1_epi64(0xffffffff);
  __m512i low = look_up(low_table, literals), high = look_up(high_table, literals), counts = look_up(count_table, literals);
  /* 16 bits: a code each of the even and the odd literals */
  __m512i even = _mm512_or_si512(_mm512_and_si512(low, low8), _mm512_slli_epi16(high, 8));
  __m512i odd = _mm512_or_si512(_mm512_srli_epi16(low, 8), _mm512_andnot_si512(low8, high));
  __m512i even_count = _mm512_and_si512(counts, low8);
  __m512i two_count = _mm512_add_epi16(even_count, _mm512_srli_epi16(counts, 8));
  /* 32 bits: two codes, and the next two */
  __m512i two = _mm512_sllv_epi32(_mm512_and_si512(odd, low16), _mm512_and_si512(even_count, low16));
  __m512i next = _mm512_sllv_epi32(_mm512_srli_epi32(odd, 16), _mm512_srli_epi32(even_count, 16));
  two = _mm512_or_si512(two, _mm512_and_si512(even, low16));
  next = _mm512_or_si512(next, _mm512_srli_epi32(even, 16));
  __m512i before = _mm512_and_si512(two_count, low16), all = _mm512_add_epi32(before, _mm512_srli_epi32(two_count, 16));
  /* 64 bits: four codes, and the next four */
  __m512i first = _mm512_sllv_epi64(_mm512_and_si512(next, low32), _mm512_and_si512(before, low32));
  __m512i second = _mm512_sllv_epi64(_mm512_srli_epi64(next, 32), _mm512_srli_epi64(before, 32));
  return (fours){.first = _mm512_or_si512(first, _mm512_and_si512(two, low32)),
                 .second = _mm512_or_si512(second, _mm512_srli_epi64(two, 32)),
                 .first_count = _mm512_and_si512(all, low32),
                 .second_count = _mm512_srli_epi64(all, 32)};
}

VBMI void put_lanes(bit_writer *writer, const uint64_t *bits, const uint64_t *counts) {
  put(writer, *bits, (unsigned)*counts);
  drain(writer);
}

__attribute__((target(FEATURES))) static size_t put_by_64(const gconv_png_literals *codes, const uint8_t *bytes,
                                                          size_t count, bit_writer *result) {
  enum { LANES = 8, MOST = 56 };
  const table low = load_table(codes->low), high = load_table(codes->high), counts = load_table(codes->count);
  _Alignas(64) uint64_t first[LANES], first_counts[LANES], second[LANES], second_counts[LANES];
  bit_writer writer = *result;
  size_t done = 0;
  for (; done + 64 <= count; done += 64) {
    fours sixteen = join_by_four(&low, &high, &counts, _mm512_loadu_si512(bytes + done));
    __m512i eight_counts = _mm512_add_epi64(sixteen.first_count, sixteen.second_count);
    if (_mm512_cmpgt_epu64_mask(eight_counts, _mm512_set1_epi64(MOST)) == 0) { /* nearly always */
      __m512i second_bits = _mm512_sllv_epi64(sixteen.second, sixteen.first_count);
      _mm512_store_si512(first, _mm512_or_si512(sixteen.first, second_bits));
      _mm512_store_si512(first_counts, eight_counts);
      for (int i = 0; i < LANES; i++)
        put_lanes(&writer, &first[i], &first_counts[i]);
      continue;
    }
    _mm512_store_si512(first, sixteen.first);
    _mm512_store_si512(second, sixteen.second);
    _mm512_store_si512(first_counts, sixteen.first_count);
    _mm512_store_si512(second_counts, sixteen.second_count);
    for (int i = 0; i < LANES; i++) {
      put_lanes(&writer, &first[i], &first_counts[i]);
      put_lanes(&writer, &second[i], &second_counts[i]);
    }
  }
  *result = writer;
  return done;
}

size_t gconv_png_put_literals(const gconv_png_literals *codes, const uint8_t *bytes, size_t count, bit_writer *writer) {
  bool can = gconv_cpu_isa() == GCONV_ISA_AVX512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("bmi2");
  return can ? put_by_64(codes, bytes, count, writer) : 0;
}

#else

size_t gconv_png_put_literals(const gconv_png_literals *codes, const uint8_t *bytes, size_t count, bit_writer *writer) {
  (void)codes, (void)bytes, (void)count, (void)writer;
  return 0;
}

#endif
