/* SPDX-License-Identifier: MIT */
/*
 * A load that crosses a cache line takes more than twice as long as a load that begins with one, and the samples under most
 * taps do not begin a cache line. So vectors are loaded where cache lines begin, and the samples under two of three taps are
 * picked from two of these vectors, by another unit of the processor. The samples under each third tap are loaded directly,
 * so that both units have work: 64 sums of 5 taps take 19 cycles, and 24 cycles by loads alone.
 *
 * The instruction that picks samples needs their place in the vectors as a constant. So there is a function for each length
 * and distance of taps.
 */
#include "kernels/cpu/short_rows.h"
#include "base/cpu.h"
#include "kernels/cpu/levels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#define TARGET __attribute__((target("avx512f,avx512bw,fma")))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = 16, WIDTH = 4, STEP = WIDTH * LANES, MOST_TAPS = 15, MOST_VECTORS = WIDTH + 4 };

/* Returns floats `from` .. from + 15 of the vectors a and b, which follow each other. `from` is a constant. */
TARGET GCONV_INLINE __m512 pick(__m512 a, __m512 b, const size_t from) {
#define FROM(n)                                                                                                             \
  if (from == (n))                                                                                                          \
    return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(b), _mm512_castps_si512(a), n));
  FROM(1)
  FROM(2)
  FROM(3)
  FROM(4)
  FROM(5)
  FROM(6)
  FROM(7)
  FROM(8)
  FROM(9)
  FROM(10)
  FROM(11)
  FROM(12)
  FROM(13)
  FROM(14)
  FROM(15)
#undef FROM
  return a;
}

/* Adds the products of one line to the sums. The last tap's samples begin a cache line. S and D are constants. */
TARGET GCONV_INLINE void add_line(const float *from, const __m512 *taps, const size_t S, const size_t D, __m512 *sum) {
  const size_t beyond = (LANES - (S - 1) * D % LANES) % LANES; /* floats of a cache line before the first tap's samples */
  __m512 vectors[MOST_VECTORS];
  UNROLL for (size_t v = 0; v < WIDTH + (beyond + (S - 1) * D) / LANES; v++) {
    vectors[v] = _mm512_load_ps(from - beyond + v * LANES);
    __asm__("" : "+v"(vectors[v])); /* else compilers would load it again for each use */
  }
  UNROLL for (size_t s = 0; s < S; s++) UNROLL for (size_t v = 0; v < WIDTH; v++) {
    const size_t at = beyond + s * D;
    const __m512 samples = s % 3 == 1 && at % LANES != 0
                               ? _mm512_loadu_ps(from + s * D + v * LANES)
                               : pick(vectors[at / LANES + v], vectors[(at + LANES - 1) / LANES + v], at % LANES);
    sum[v] = _mm512_fmadd_ps(taps[s], samples, sum[v]);
  }
}

TARGET GCONV_INLINE void make_levels(const gconv_short_rows *r, gconv_type type, const size_t S, const size_t D,
                                     const size_t count, size_t samples, uint8_t *const *levels) {
  __m512 taps[MOST_TAPS];
  for (size_t j = 0; j < r->rows; j++)
    for (size_t x = 0; x < samples; x += STEP) {
      __m512 sum[WIDTH];
      UNROLL for (size_t v = 0; v < WIDTH; v++) sum[v] = _mm512_setzero_ps();
      for (size_t i = 0; i < count; i++) {
        UNROLL for (size_t s = 0; s < S; s++) taps[s] = _mm512_set1_ps(r->taps[i * S + s]);
        add_line(r->lines[i] + j * r->pitch + x, taps, S, D, sum);
      }
      gconv_put_bounded_levels_avx512(type, sum, samples - x, levels[j] + x * (type == GCONV_U8 ? 1 : 2));
    }
}

#define LOOP(S, D)                                                                                                          \
  TARGET __attribute__((noinline)) static void make_##S##_##D(const gconv_short_rows *rows, gconv_type type,                \
                                                              size_t samples, uint8_t *const *levels) {                     \
    if (rows->count == 1 && type == GCONV_U8)                                                                               \
      make_levels(rows, GCONV_U8, S, D, 1, samples, levels);                                                                \
    else if (type == GCONV_U8)                                                                                              \
      make_levels(rows, GCONV_U8, S, D, rows->count, samples, levels);                                                      \
    else                                                                                                                    \
      make_levels(rows, GCONV_U16, S, D, rows->count, samples, levels);                                                     \
  }
LOOP(3, 1)
LOOP(5, 1)
LOOP(7, 1)
LOOP(9, 1)
LOOP(11, 1)
LOOP(13, 1)
LOOP(15, 1)
LOOP(3, 2)
LOOP(5, 2)
LOOP(7, 2)
LOOP(3, 3)
LOOP(5, 3)
LOOP(7, 3)
LOOP(9, 3)
LOOP(11, 3)
LOOP(13, 3)
LOOP(15, 3)
LOOP(3, 4)

typedef void make_function(const gconv_short_rows *rows, gconv_type type, size_t samples, uint8_t *const *levels);

static make_function *function_of(size_t length, size_t distance) {
  static make_function *const functions[4][8] = {
      {NULL, make_3_1, make_5_1, make_7_1, make_9_1, make_11_1, make_13_1, make_15_1},
      {NULL, make_3_2, make_5_2, make_7_2},
      {NULL, make_3_3, make_5_3, make_7_3, make_9_3, make_11_3, make_13_3, make_15_3},
      {NULL, make_3_4},
  };
  return distance >= 1 && distance <= 4 && length % 2 == 1 && length <= MOST_TAPS ? functions[distance - 1][length / 2]
                                                                                  : NULL;
}

bool gconv_short_levels(const gconv_short_rows *rows, gconv_type type, size_t samples, uint8_t *const *levels) {
  make_function *function = function_of(rows->length, rows->distance);
  if (gconv_cpu_isa() != GCONV_ISA_AVX512 || !function)
    return false;
  function(rows, type, samples, levels);
  return true;
}

#else

bool gconv_short_levels(const gconv_short_rows *rows, gconv_type type, size_t samples, uint8_t *const *levels) {
  return false;
}

#endif
