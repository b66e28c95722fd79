/* SPDX-License-Identifier: MIT */
/* The tiles of product.c for one kind of vector (each_isa.h). N and V are constants where the functions are inlined. N * V
 * sums, V vectors and a spread number must fit in the registers. */

GCONV_INLINE TARGET void NAME(gather)(const gconv_gather *p, const float *a, const float *b, float *out, const int N,
                                      const int V) {
  VECTOR sum[MOST_ROWS][MOST_VECTORS];
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++) sum[i][v] = ZERO;
  const int64_t a_pitch = p->a_pitch, parts = p->parts ? p->part_count : 1;
  for (int64_t part = 0; part < parts; part++) {
    const int64_t first = p->parts ? p->parts[part] : 0;
    const int64_t *offsets = p->offsets + first, *end = offsets + p->count;
    const float *factors = a + first * a_pitch;
    for (; offsets < end; offsets++, factors += a_pitch) {
      const float *from = b + *offsets;
      VECTOR vector[MOST_VECTORS];
      UNROLL for (int v = 0; v < V; v++) vector[v] = LOAD(from + v * LANES);
      UNROLL for (int i = 0; i < N; i++) {
        VECTOR factor = SPREAD(factors + i);
        UNROLL for (int v = 0; v < V; v++) sum[i][v] = FMA(factor, vector[v], sum[i][v]);
      }
    }
  }
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++) STORE(out + i * p->out_pitch + v * LANES, sum[i][v]);
}

GCONV_INLINE TARGET void NAME(outer)(const gconv_outer *p, const int64_t *offsets, const float *x, const float *g,
                                     float *sums, const int N, const int V) {
  VECTOR sum[MOST_ROWS][MOST_VECTORS];
  const float *from[MOST_ROWS];
  UNROLL for (int i = 0; i < N; i++) {
    from[i] = x + offsets[i];
    UNROLL for (int v = 0; v < V; v++) sum[i][v] = p->begins ? ZERO : LOAD(sums + i * p->out_pitch + v * LANES);
  }
  const int64_t g_pitch = p->g_pitch, columns = p->columns;
  for (int64_t row = 0; row < p->rows; row++) {
    for (int64_t m = 0; m < columns; m++, g += g_pitch) {
      VECTOR vector[MOST_VECTORS];
      UNROLL for (int v = 0; v < V; v++) vector[v] = LOAD(g + v * LANES);
      UNROLL for (int i = 0; i < N; i++) {
        VECTOR factor = SPREAD(from[i] + m);
        UNROLL for (int v = 0; v < V; v++) sum[i][v] = FMA(factor, vector[v], sum[i][v]);
      }
    }
    g += p->g_gap;
    UNROLL for (int i = 0; i < N; i++) from[i] += p->x_pitch;
  }
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++)
      STORE(sums + i * p->out_pitch + v * LANES, sum[i][v]);
}

GCONV_INLINE TARGET void NAME(listed)(const gconv_listed *p, const int64_t *offsets, const float *x, const float *g,
                                      float *sums, const int N, const int V) {
  VECTOR sum[MOST_LISTED][2];
  const float *from[MOST_LISTED];
  const int64_t g_pitch = p->g_pitch;
  UNROLL for (int i = 0; i < N; i++) {
    from[i] = g - offsets[i] * g_pitch;
    __asm__("" : "+r"(from[i])); /* else compilers would compute it again in the loop */
    UNROLL for (int v = 0; v < V; v++) sum[i][v] = LOAD(sums + i * p->out_pitch + v * LANES);
  }
  for (const int32_t *m = p->list, *end = m + p->count; m < end; m++) {
    VECTOR factor = SPREAD(x + *m);
    const int64_t at = *m * g_pitch;
    UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++) sum[i][v] =
        FMA(factor, LOAD(from[i] + at + v * LANES), sum[i][v]);
  }
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++)
      STORE(sums + i * p->out_pitch + v * LANES, sum[i][v]);
}

static TARGET int64_t NAME(list)(const float *x, int64_t count, int32_t *list) {
  int64_t found = 0;
#if LANES == 16
  __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int64_t m = 0; m < count; m += LANES) {
    unsigned which = NONZERO(LOAD(x + m)) & (count - m < LANES ? (1u << (count - m)) - 1 : 0xffffu);
    _mm512_storeu_si512(list + found, _mm512_maskz_compress_epi32((__mmask16)which, numbers));
    found += __builtin_popcount(which);
    numbers = _mm512_add_epi32(numbers, _mm512_set1_epi32(LANES));
  }
#else
  for (int64_t m = 0; m < count; m++) {
    list[found] = (int32_t)m;
    found += x[m] != 0;
  }
#endif
  return found;
}

static TARGET void NAME(mark)(const float *x, int64_t rows, int64_t pitch, int64_t count, bool *marks) {
  const int64_t last = count > LANES ? count - LANES : 0;
  for (int64_t i = 0; i < rows; i++, x += pitch) {
    unsigned which = NONZERO(LOAD(x + last));
    for (int64_t m = 0; m < last; m += LANES)
      which |= NONZERO(LOAD(x + m));
    marks[i] = which != 0;
  }
}

static TARGET bool NAME(any_zero)(const float *sums, int64_t rows, int64_t pitch, int64_t columns) {
  const unsigned all = (1u << (LANES - 1) << 1) - 1;
  unsigned which = all;
  for (int64_t k = 0; k < columns; k += LANES) {
    unsigned others = columns - k < LANES ? all << (columns - k) & all : 0;
    for (int64_t i = 0; i < rows; i++)
      which &= NONZERO(LOAD(sums + i * pitch + k)) | others;
  }
  return which != all;
}

#define GATHER_TILE(N, V)                                                                                                   \
  static TARGET __attribute__((noinline)) void NAME(gather_##N##_##V)(const gconv_gather *p, const float *a,                \
                                                                      const float *b, float *out) {                         \
    NAME(gather)(p, a, b, out, N, V);                                                                                       \
  }
#define OUTER_TILE(N, V)                                                                                                    \
  static TARGET __attribute__((noinline)) void NAME(outer_##N##_##V)(const gconv_outer *p, const int64_t *offsets,          \
                                                                     const float *x, const float *g, float *sums) {         \
    NAME(outer)(p, offsets, x, g, sums, N, V);                                                                              \
  }
#define LISTED_TILE(N, V)                                                                                                   \
  static TARGET __attribute__((noinline)) void NAME(listed_##N##_##V)(const gconv_listed *p, const int64_t *offsets,        \
                                                                      const float *x, const float *g, float *sums) {        \
    NAME(listed)(p, offsets, x, g, sums, N, V);                                                                             \
  }
/* TILES() defines tiles of N rows and 1 or 2 vectors; WIDE_GATHER() and WIDE_OUTER() define tiles of 3 vectors. Macros with
 * ROW make rows of tables. */
#define TILES(N) GATHER_TILE(N, 1) GATHER_TILE(N, 2) OUTER_TILE(N, 1) OUTER_TILE(N, 2)
#define WIDE_GATHER(N) GATHER_TILE(N, 3)
#define WIDE_OUTER(N) OUTER_TILE(N, 3)
#define LISTED_TILES(N) LISTED_TILE(N, 1) LISTED_TILE(N, 2)
#define ROW(kind, N) {NULL, NAME(kind##_##N##_1), NAME(kind##_##N##_2)},
#define WIDE_ROW(kind, N) {NULL, NAME(kind##_##N##_1), NAME(kind##_##N##_2), NAME(kind##_##N##_3)},
#define WIDE_GATHER_ROW(N) WIDE_ROW(gather, N)
#define OUTER_ROW(N) ROW(outer, N)
#define WIDE_OUTER_ROW(N) WIDE_ROW(outer, N)
#define LISTED_ROW(N) ROW(listed, N)
/* Tiles of one row have up to 6 vectors. */
#define LONGEST_GATHER [1][4] = NAME(gather_1_4), [1][5] = NAME(gather_1_5), [1][6] = NAME(gather_1_6)
GATHER_TILE(1, 4)
GATHER_TILE(1, 5)
GATHER_TILE(1, 6)
#if REGISTERS == 32
TO_8(TILES)
TO_8(WIDE_GATHER)
TO_8(WIDE_OUTER)
TO_9(LISTED_TILES)
#else
TO_6(TILES)
TO_4(WIDE_GATHER)
TO_5(LISTED_TILES)
#endif

static const tile_set NAME(tiles) = {
    .lanes = LANES,
    .list = NAME(list),
    .mark = NAME(mark),
    .any_zero = NAME(any_zero),
#if REGISTERS == 32
    .shapes = {{8, 3}, {1, 6}},
    .listed_shape = {9, 2},
    .listed = {{NULL}, TO_9(LISTED_ROW)},
    .gather = {{NULL}, TO_8(WIDE_GATHER_ROW) LONGEST_GATHER},
    .outer = {{NULL}, TO_8(WIDE_OUTER_ROW)},
#else
    .shapes = {{6, 2}, {4, 3}, {1, 6}},
    .listed_shape = {5, 2},
    .listed = {{NULL}, TO_5(LISTED_ROW)},
    .gather = {{NULL}, TO_4(WIDE_GATHER_ROW) ROW(gather, 5) ROW(gather, 6) LONGEST_GATHER},
    .outer = {{NULL}, TO_6(OUTER_ROW)},
#endif
};
#undef GATHER_TILE
#undef OUTER_TILE
#undef LISTED_TILE
#undef TILES
#undef WIDE_GATHER
#undef WIDE_OUTER
#undef LISTED_TILES
#undef ROW
#undef WIDE_ROW
#undef WIDE_GATHER_ROW
#undef OUTER_ROW
#undef WIDE_OUTER_ROW
#undef LISTED_ROW
#undef LONGEST_GATHER
