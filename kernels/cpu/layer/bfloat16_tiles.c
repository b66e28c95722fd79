/* SPDX-License-Identifier: MIT */
#include "bfloat16_tiles.h"
#include "base/cpu.h"

enum { SIDE = GCONV_TILE_SIDE, SPLITS = GCONV_SPLITS, TILE_BYTES = GCONV_TILE_BYTES };

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))

/* The state of tiles, as LDTILECFG reads it. */
typedef struct tile_state {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[SIDE];
  uint8_t rows[SIDE];
} tile_state;

enum { AHEAD = 4 * SPLITS * TILE_BYTES };     /* weights are prefetched from the L3 cache so many bytes ahead */
enum { WEIGHTS = 4, SAMPLES = 6, TILES = 8 }; /* tiles 0 .. 3 are sums */

TARGET void gconv_tiles_begin(int rows, int depth) {
  tile_state state = {.palette = 1};
  for (int i = 0; i < TILES; i++) {
    state.rows[i] = (uint8_t)(i < SAMPLES ? rows : depth);
    state.row_bytes[i] = (uint16_t)(i >= WEIGHTS && i < SAMPLES ? depth * 4 : SIDE * 4);
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(state));
}

TARGET void gconv_tiles_end(void) {
  _tile_release();
}

/* The macros of a step: each product differs from the product before it by one operand, so one operand is loaded for it. */
#define MEMORY_BARRIER __asm__ volatile("" : : : "memory") /* compilers do not know that tiles are loaded and stored */
#define ZERO_SUM(sum, w, x, f, v) _tile_zero(sum);
#define STORE_SUM(sum, w, x, f, v) _tile_stored(sum, p->sums + (f)*SIDE * p->pitch + (v)*SIDE, p->pitch * 4);
#define LOAD_WEIGHTS(tile, f, part) _tile_loadd(tile, w + (f)*p->block + (part)*TILE_BYTES, SIDE * 4);
#define LOAD_SAMPLES(tile, v, part) _tile_loadd(tile, x + (v)*SIDE * 4 + (part)*p->split, p->row);
#define MULTIPLY(sum, w, x, f, v) _tile_dpbf16ps(sum, w, x);

#define WEIGHTS_1(X, part) X(4, 0, part)
#define WEIGHTS_2(X, part) X(4, 0, part) X(5, 1, part)
#define SAMPLES_1(X, part) X(6, 0, part)
#define SAMPLES_2(X, part) X(6, 0, part) X(7, 1, part)
#define SUMS_1_1(X) X(0, 4, 6, 0, 0)
#define SUMS_1_2(X) X(0, 4, 6, 0, 0) X(1, 4, 7, 0, 1)
#define SUMS_2_1(X) X(0, 4, 6, 0, 0) X(2, 5, 6, 1, 0)
#define SUMS_2_2(X) X(0, 4, 6, 0, 0) X(1, 4, 7, 0, 1) X(2, 5, 6, 1, 0) X(3, 5, 7, 1, 1)

/* The sums of F blocks and V vectors. */
#define PRODUCT(F, V)                                                                                                       \
  static TARGET __attribute__((noinline)) void product_##F##_##V(const gconv_tile_product *p) {                             \
    const uint8_t *w = p->weights;                                                                                          \
    MEMORY_BARRIER;                                                                                                         \
    SUMS_##F##_##V(ZERO_SUM);                                                                                               \
    for (int32_t i = 0; i < p->steps; i++, w += SPLITS * TILE_BYTES) {                                                      \
      const uint8_t *x = p->samples + p->offsets[i];                                                                        \
      for (int64_t ahead = 0; ahead < p->fetched; ahead += 64)                                                              \
        for (int f = 0; f < F; f++)                                                                                         \
          __builtin_prefetch(w + f * p->block + AHEAD + ahead, 0, 2);                                                       \
      WEIGHTS_##F(LOAD_WEIGHTS, 0) SAMPLES_##V(LOAD_SAMPLES, 2) SUMS_##F##_##V(MULTIPLY);                                   \
      SAMPLES_##V(LOAD_SAMPLES, 1) SUMS_##F##_##V(MULTIPLY);                                                                \
      WEIGHTS_##F(LOAD_WEIGHTS, 1) SUMS_##F##_##V(MULTIPLY);                                                                \
      SAMPLES_##V(LOAD_SAMPLES, 0) SUMS_##F##_##V(MULTIPLY);                                                                \
      WEIGHTS_##F(LOAD_WEIGHTS, 2) SUMS_##F##_##V(MULTIPLY);                                                                \
      WEIGHTS_##F(LOAD_WEIGHTS, 0) SUMS_##F##_##V(MULTIPLY);                                                                \
    }                                                                                                                       \
    SUMS_##F##_##V(STORE_SUM);                                                                                              \
    MEMORY_BARRIER;                                                                                                         \
  }
PRODUCT(1, 1)
PRODUCT(1, 2)
PRODUCT(2, 1)
PRODUCT(2, 2)

/* The sums of one block and four vectors. */
#define FOUR(X, weights, part) X(0, weights, 6, part) X(1, weights, 7, part) X(2, weights, 6, part) X(3, weights, 7, part)
#define ZERO_FOUR(v, weights, x, part) _tile_zero(v);
#define STORE_FOUR(v, weights, x, part) _tile_stored(v, p->sums + (v)*SIDE, p->pitch * 4);
#define MULTIPLY_FOUR(v, weights, x, part) LOAD_SAMPLES(x, v, part) _tile_dpbf16ps(v, weights, x);
#define MULTIPLY_FOUR_TWICE(v, weights, x, part)                                                                            \
  MULTIPLY_FOUR(v, 4, x, part)                                                                                              \
  _tile_dpbf16ps(v, 5, x);
static TARGET __attribute__((noinline)) void product_1_4(const gconv_tile_product *p) {
  const uint8_t *w = p->weights;
  MEMORY_BARRIER;
  FOUR(ZERO_FOUR, 4, 0)
  for (int32_t i = 0; i < p->steps; i++, w += SPLITS * TILE_BYTES) {
    const uint8_t *x = p->samples + p->offsets[i];
    for (int64_t ahead = 0; ahead < p->fetched; ahead += 64)
      __builtin_prefetch(w + AHEAD + ahead, 0, 2);
    LOAD_WEIGHTS(4, 0, 0) LOAD_WEIGHTS(5, 0, 1);
    FOUR(MULTIPLY_FOUR, 4, 2)
    FOUR(MULTIPLY_FOUR_TWICE, 4, 1)
    FOUR(MULTIPLY_FOUR, 5, 0)
    LOAD_WEIGHTS(5, 0, 2);
    FOUR(MULTIPLY_FOUR, 5, 0)
    FOUR(MULTIPLY_FOUR, 4, 0)
  }
  FOUR(STORE_FOUR, 4, 0)
  MEMORY_BARRIER;
}

void gconv_tiles_multiply(gconv_tile_product *p, int32_t blocks, int64_t vectors) {
  static void (*const products[3][3])(const gconv_tile_product *) = {
      {NULL}, {NULL, product_1_1, product_1_2}, {NULL, product_2_1, product_2_2}};
  p->fetched = SPLITS * TILE_BYTES;
  for (int64_t i = 0, V; i < vectors; i += V, p->fetched = 0, p->samples += V * SIDE * 4, p->sums += V * SIDE) {
    V = blocks == 1 && vectors - i >= 4 ? 4 : gconv_clamp(vectors - i, 1, 2);
    (V == 4 ? product_1_4 : products[blocks][V])(p);
  }
}

/* Returns the lanes of numbers that are below GCONV_TINY, and not 0. */
TARGET GCONV_INLINE __mmask16 tiny_lanes(__m512 x) {
  const __mmask16 small = _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(GCONV_TINY), _CMP_LT_OQ);
  return _mm512_mask_cmp_ps_mask(small, x, _mm512_setzero_ps(), _CMP_NEQ_OQ);
}

TARGET bool gconv_split_pairs(const float *a, const float *b, int64_t count, uint32_t *to, int64_t part) {
  uint16_t order[2 * SIDE];
  for (int i = 0; i < 2 * SIDE; i++)
    order[i] = (uint16_t)(i / 2 + i % 2 * SIDE);
  const __m512i interleave = _mm512_loadu_si512(order), second = _mm512_set1_epi32((int)0xffff0000);
  const __m512 half = _mm512_set1_ps(0.5F);
  __mmask16 tiny = 0;
  for (int64_t i = 0; i < count; i += SIDE) {
    const __mmask16 there = (__mmask16)(count - i >= SIDE ? 0xffff : (1u << (count - i)) - 1);
    __m512 x = _mm512_maskz_loadu_ps(there, a + i), y = b ? _mm512_maskz_loadu_ps(there, b + i) : _mm512_setzero_ps();
    tiny |= tiny_lanes(x) | tiny_lanes(y);
    x *= half; /* else the largest numbers would be rounded to infinity */
    y *= half;
    for (int split = 0; split < SPLITS; split++) {
      const __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(y, x), pairs = _mm512_permutexvar_epi16(interleave, rounded);
      _mm512_mask_storeu_epi32(to + i + split * part, there, pairs);
      x -= _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
      y -= _mm512_castsi512_ps(_mm512_and_si512(pairs, second));
    }
  }
  return tiny != 0;
}

TARGET bool gconv_tiles_finish(const float *sums, float scale, float bias, const gconv_layer_bounds *bounds, int64_t count,
                               float *to) {
  const __m512 factor = _mm512_set1_ps(scale), b = _mm512_set1_ps(bias), low = _mm512_set1_ps(bounds->low),
               high = _mm512_set1_ps(bounds->high);
  __mmask16 finite = 0xffff;
  for (int64_t i = 0; i < count; i += SIDE) {
    const __mmask16 there = (__mmask16)(count - i >= SIDE ? 0xffff : (1u << (count - i)) - 1);
    const __m512 sum = _mm512_maskz_loadu_ps(there, sums + i) * factor + b;
    finite &= _mm512_cmp_ps_mask(sum - sum, _mm512_setzero_ps(), _CMP_EQ_OQ); /* infinity - infinity is NaN */
    _mm512_mask_storeu_ps(to + i, there, _mm512_min_ps(high, _mm512_max_ps(low, sum)));
  }
  return finite == 0xffff;
}

#else /* never called, as gconv_cpu_tiles() is false */
void gconv_tiles_begin(int rows, int depth) {}
void gconv_tiles_end(void) {}
void gconv_tiles_multiply(gconv_tile_product *p, int32_t blocks, int64_t vectors) {}
bool gconv_split_pairs(const float *a, const float *b, int64_t count, uint32_t *to, int64_t part) {
  return false;
}
bool gconv_tiles_finish(const float *sums, float scale, float bias, const gconv_layer_bounds *bounds, int64_t count,
                        float *to) {
  return true;
}
#endif
