/* SPDX-License-Identifier: MIT */
/* The loops of tile.h for one kind of vector (each_isa.h). Registers must hold 6 * VECTORS sums, VECTORS samples, a tap. */

typedef VECTOR NAME(sums)[GCONV_TILE_ROWS][VECTORS];

/* Loads as many samples as a vector has floats, from sample x on. The type is a constant where this is inlined. */
GCONV_INLINE TARGET VECTOR NAME(load)(gconv_type type, const void *samples, int64_t x) {
  if (type == GCONV_U8)
    return LOAD_U8((const uint8_t *)samples + x);
  if (type == GCONV_U16)
    return LOAD_U16((const uint16_t *)samples + x);
  return LOAD((const float *)samples + x);
}

/* Prefetches integers from sample x on, for the tile after the next. The processor by itself cannot follow so many rows. */
GCONV_INLINE void NAME(expect)(gconv_type type, const void *samples, int64_t x) {
  if (LANES == 16 && type == GCONV_U8)
    __builtin_prefetch((const uint8_t *)samples + x);
  if (LANES == 16 && type == GCONV_U16) {
    __builtin_prefetch((const uint16_t *)samples + x);
    __builtin_prefetch((const uint16_t *)samples + x + 32);
  }
}

/* Adds one input row to the sums of output rows lo .. hi, which are constants where this is inlined. `tap` points to the tap
 * of output row 0 in the filter's first column. Output row i uses the tap i rows higher in the filter. */
GCONV_INLINE TARGET void NAME(step)(NAME(sums) sum, gconv_type type, const void *row, size_t first, const int64_t *offsets,
                                    const float *tap, int32_t R, int32_t S, int lo, int hi) {
  for (int32_t s = 0; s < S; s++, tap += R) {
    const int64_t at = (int64_t)first + offsets[s];
    VECTOR x[VECTORS];
    NAME(expect)(type, row, at + 2 * VECTORS * LANES);
    UNROLL for (int v = 0; v < VECTORS; v++) {
      x[v] = NAME(load)(type, row, at + v * LANES);
      KEEP(x[v]);
    }
    UNROLL for (int i = lo; i <= hi; i++) {
      VECTOR t = SPREAD(tap - i);
      UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = FMA(t, x[v], sum[i][v]);
    }
  }
}

/* Adds all input rows. Input row y belongs to the output rows y - R + 1 .. y, as far as they are in 0 .. 5: first more and
 * more rows, then all six, then fewer and fewer. If there are fewer than 6 rows of taps, no input row belongs to all
 * six. Then `few` is true, and R is a constant. */
#define STEP(y, lo, hi) NAME(step)(sum, type, rows[y], x, offsets, taps + (y), R, S, lo, hi)

GCONV_INLINE TARGET void NAME(steps)(NAME(sums) sum, gconv_type type, const void *const *rows, const int64_t *offsets,
                                     const float *taps, int32_t R, int32_t S, size_t x, bool few) {
  if (few) {
    UNROLL for (int32_t y = 0; y < R + 5; y++) STEP(y, y < R ? 0 : y - R + 1, y < 5 ? y : 5);
    return;
  }
  UNROLL for (int32_t y = 0; y < 5; y++) STEP(y, 0, y);
  for (int32_t y = 5; y < R; y++)
    STEP(y, 0, 5);
  UNROLL for (int32_t i = 0; i < 5; i++) STEP(R + i, i + 1, 5);
}
#undef STEP

/* The type, R and S are constants where this is inlined for a common size. */
GCONV_INLINE TARGET void NAME(tile)(gconv_type type, const void *const *rows, size_t first, const int64_t *offsets,
                                    const float *taps, int32_t R, int32_t S, size_t samples, float *sums, size_t stride,
                                    bool few) {
  for (size_t x = 0; x < samples; x += VECTORS * LANES) {
    NAME(sums) sum;
    UNROLL for (int i = 0; i < GCONV_TILE_ROWS; i++) UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = ZERO;
    NAME(steps)(sum, type, rows, offsets, taps, R, S, first + x, few);
    UNROLL for (int i = 0; i < GCONV_TILE_ROWS; i++) UNROLL for (int v = 0; v < VECTORS; v++)
        STORE(sums + (size_t)i * stride + x + v * LANES, sum[i][v]);
  }
}

/* A function for each height up to 5, and one for all other heights, each for one type. `along` is true if filters have
 * several columns. */
#define SIZE(id, type, R_, few, along)                                                                                      \
  static TARGET __attribute__((noinline)) void NAME(tile_##id)(const void *const *rows, size_t first,                       \
                                                               const int64_t *offsets, const float *taps, int32_t R,        \
                                                               int32_t S, size_t samples, float *sums, size_t stride) {     \
    static const int64_t none = 0;                                                                                          \
    (void)R, (void)S, (void)offsets, (void)none;                                                                            \
    NAME(tile)(type, rows, first, along ? offsets : &none, taps, R_, along ? S : 1, samples, sums, stride, few);            \
  }
#define SIZES(id, type, along)                                                                                              \
  SIZE(id##_more, type, R, false, along)                                                                                    \
  SIZE(id##_1, type, 1, true, along)                                                                                        \
  SIZE(id##_2, type, 2, true, along)                                                                                        \
  SIZE(id##_3, type, 3, true, along)                                                                                        \
  SIZE(id##_4, type, 4, true, along)                                                                                        \
  SIZE(id##_5, type, 5, true, along)                                                                                        \
  static gconv_tile_function *const NAME(sizes_##id)[] = {                                                                  \
      NAME(tile_##id##_more), NAME(tile_##id##_1), NAME(tile_##id##_2),                                                     \
      NAME(tile_##id##_3),    NAME(tile_##id##_4), NAME(tile_##id##_5)};
SIZES(all, GCONV_F32, true)
SIZES(f32, GCONV_F32, false)
SIZES(u8, GCONV_U8, false)
SIZES(u16, GCONV_U16, false)
#undef SIZES
#undef SIZE

#if LANES == 16
/* Adds the taps of a filter of one row. Rows share no loads, and most loads cross a cache line, which takes as long as two
 * loads. So the samples under every second tap are picked from two vectors that lie on cache lines: another unit of the
 * processor does that. */
GCONV_INLINE TARGET void NAME(add_across)(VECTOR *sum, const float *begin, const int64_t *offsets, const float *taps,
                                          int32_t S) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const float *line = NULL; /* where the vectors of `a` are from */
  VECTOR a[VECTORS + 1];
  UNROLL for (int v = 0; v <= VECTORS; v++) a[v] = ZERO;
  for (int32_t s = 0; s < S; s++) {
    const float *from = begin + offsets[s];
    const VECTOR t = SPREAD(taps + s);
    if (s % 2 != 0) {
      UNROLL for (int v = 0; v < VECTORS; v++) sum[v] = FMA(t, LOAD(from + v * LANES), sum[v]);
      continue;
    }
    const size_t beyond = (uintptr_t)from / sizeof(float) % LANES;
    if (from - beyond != line) {
      line = from - beyond;
      UNROLL for (int v = 0; v <= VECTORS; v++) a[v] = LOAD(line + v * LANES);
    }
    const __m512i places = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)beyond));
    UNROLL for (int v = 0; v < VECTORS; v++) sum[v] = FMA(t, _mm512_permutex2var_ps(a[v], places, a[v + 1]), sum[v]);
  }
}

static TARGET void NAME(tile_across)(const float *const *rows, size_t first, const int64_t *offsets, const float *taps,
                                     int32_t S, size_t samples, float *sums, size_t stride) {
  for (int i = 0; i < GCONV_TILE_ROWS; i++)
    for (size_t x = 0; x < samples; x += VECTORS * LANES) {
      VECTOR sum[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) sum[v] = ZERO;
      NAME(add_across)(sum, rows[i] + first + x, offsets, taps, S);
      UNROLL for (int v = 0; v < VECTORS; v++) STORE(sums + (size_t)i * stride + x + v * LANES, sum[v]);
    }
}
#endif

static TARGET void NAME(tile_rows)(const float *const *rows, size_t first, const int64_t *offsets, const float *taps,
                                   int32_t R, int32_t S, size_t samples, float *sums, size_t stride) {
#if LANES == 16
  if (R == 1 && S > 4) {
    NAME(tile_across)(rows, first, offsets, taps, S, samples, sums, stride);
    return;
  }
#endif
  NAME(sizes_all)[R <= 5 ? R : 0]((const void *const *)rows, first, offsets, taps, R, S, samples, sums, stride);
}

/* Computes a row of sums. Several vectors at a time hide the latency of additions. */
GCONV_INLINE TARGET void NAME(list)(gconv_type type, const void *const *sources, size_t first, const float *taps,
                                    size_t count, size_t samples, float *sums) {
  enum { SIDE = GCONV_TILE_SAMPLES / LANES < 8 ? GCONV_TILE_SAMPLES / LANES : 8 };
  for (size_t x = 0; x < samples; x += SIDE * LANES) {
    VECTOR sum[SIDE];
    UNROLL for (int v = 0; v < SIDE; v++) sum[v] = ZERO;
    for (size_t t = 0; t < count; t++) {
      const int64_t at = (int64_t)(first + x);
      VECTOR tap = SPREAD(taps + t);
      UNROLL for (int v = 0; v < SIDE; v++) sum[v] = FMA(tap, NAME(load)(type, sources[t], at + v * LANES), sum[v]);
    }
    UNROLL for (int v = 0; v < SIDE; v++) STORE(sums + x + v * LANES, sum[v]);
  }
}

static TARGET void NAME(tile_list)(const float *const *sources, const float *taps, size_t count, size_t samples,
                                   float *sums) {
  NAME(list)(GCONV_F32, (const void *const *)sources, 0, taps, count, samples, sums);
}

static TARGET void NAME(tile_columns)(const gconv_tile_column *c, size_t first, const float *taps, size_t samples,
                                      float *sums, size_t stride) {
  if (c->count == GCONV_TILE_ROWS) {
    gconv_tile_function *const *sizes = c->type == GCONV_U8    ? NAME(sizes_u8)
                                        : c->type == GCONV_U16 ? NAME(sizes_u16)
                                                               : NAME(sizes_f32);
    sizes[c->R <= 5 ? c->R : 0](c->rows, first, NULL, taps, c->R, 1, samples, sums, stride);
  } else if (c->type == GCONV_U8)
    NAME(list)(GCONV_U8, c->rows, first, taps, (size_t)c->R, samples, sums);
  else if (c->type == GCONV_U16)
    NAME(list)(GCONV_U16, c->rows, first, taps, (size_t)c->R, samples, sums);
  else
    NAME(list)(GCONV_F32, c->rows, first, taps, (size_t)c->R, samples, sums);
}

/* Taps that are `period` apart use the same vectors, `shift` vectors apart. A vector is loaded once and used for the sums of
 * all these taps. There are `count` taps and `side` vectors of sums; both are constants where this is inlined. */
GCONV_INLINE TARGET void NAME(add_alike)(VECTOR *sum, const float *x, const float *taps, size_t period, int count, int shift,
                                         int side) {
  VECTOR t[4];
#if LANES > 1
  __asm__("" : "+r"(x)); /* else GCC would keep vectors for the next call, and move them between registers */
#endif
  UNROLL for (int i = 0; i < count; i++) t[i] = SPREAD(taps + (size_t)i * period);
  UNROLL for (int v = 0; v < side + (count - 1) * shift; v++) {
    VECTOR a = LOAD(x + v * LANES);
    KEEP(a);
    UNROLL for (int i = 0; i < count; i++) {
      int to = v - i * shift;
      if (to >= 0 && to < side)
        sum[to] = ADD_PRODUCT(t[i], a, sum[to]);
    }
  }
}

/* Stores `side` vectors of sums as samples x .. of `to`: as they are, or as levels of the samples up to `end`. */
GCONV_INLINE TARGET void NAME(put)(const VECTOR *sum, int side, gconv_type type, size_t x, size_t end, void *to) {
#if LANES == 16
  if (type != GCONV_F32) {
    UNROLL for (int v = 0; v < side; v += 4, x += 4 * LANES)
        gconv_put_bounded_levels_avx512(type, sum + v, end - x, (uint8_t *)to + x * (type == GCONV_U8 ? 1 : 2));
    return;
  }
#endif
  (void)type, (void)end;
  UNROLL for (int v = 0; v < side; v++) STORE((float *)to + x + v * LANES, sum[v]);
}

/* Adds all taps of all lines to `side` vectors of sums. Each loop has one condition and no division: loops with more took a
 * quarter longer. */
GCONV_INLINE TARGET void NAME(add_along)(const gconv_tile_lines *lines, size_t period, int shift, int side, gconv_type type,
                                         size_t x, size_t end, void *to) {
  VECTOR sum[12];
  UNROLL for (int v = 0; v < side; v++) sum[v] = ZERO;
  const size_t turns = (lines->length - 1) / period, more = (lines->length - 1) % period;
  const float *taps = lines->taps;
  for (size_t i = 0; i < lines->count; i++, taps += lines->length) {
    const float *from = lines->sources[i] + x;
    for (size_t first = 0; first < period && first < lines->length; first++, from += lines->distance) {
      const float *at = from, *tap = taps + first;
      size_t left = turns + (first <= more);
      for (; shift == 1 && left >= 4; left -= 4, tap += 4 * period, at += 4 * LANES)
        NAME(add_alike)(sum, at, tap, period, 4, shift, side);
      for (; left >= 2; left -= 2, tap += 2 * period, at += 2 * shift * LANES)
        NAME(add_alike)(sum, at, tap, period, 2, shift, side);
      if (left > 0)
        NAME(add_alike)(sum, at, tap, period, 1, shift, side);
    }
  }
  NAME(put)(sum, side, type, x, end, to);
}

/* Makes 12 vectors at a time, then 4 or, if a vector is one float, 1. */
GCONV_INLINE TARGET void NAME(add_lines)(const gconv_tile_lines *lines, size_t period, int shift, gconv_type type,
                                         size_t samples, void *to) {
  enum { REST = LANES == 1 ? 1 : 4 };
  size_t x = 0;
  for (; x + 12 * LANES <= samples; x += 12 * LANES)
    NAME(add_along)(lines, period, shift, 12, type, x, samples, to);
  for (; x < samples; x += REST * LANES)
    NAME(add_along)(lines, period, shift, REST, type, x, samples, to);
}

static TARGET bool NAME(tile_lines)(const gconv_tile_lines *lines, gconv_type type, size_t samples, void *to) {
  size_t common = LANES;
  while (lines->distance % common != 0)
    common /= 2;
  const size_t period = LANES / common, shift = lines->distance / common;
  if (lines->length <= period || (type != GCONV_F32 && LANES != 16)) /* no taps use the same vectors */
    return false;
  if (shift == 1)
    NAME(add_lines)(lines, period, 1, type, samples, to);
  else if (shift == 3)
    NAME(add_lines)(lines, period, 3, type, samples, to);
  return shift == 1 || shift == 3;
}
