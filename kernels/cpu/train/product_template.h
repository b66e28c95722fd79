/* SPDX-License-Identifier: MIT */
/* The tiles of product.c for one kind of vector (each_isa.h). N and V are constants where the functions are inlined. N * V
 * sums, V vectors and a spread number must fit in the registers. */

GCONV_INLINE TARGET void NAME(gather)(const gconv_gather *p, const float *a, const float *b, float *out, const int N,
                                      const int V) {
  VECTOR sum[GCONV_LEARN_ROWS][GCONV_LEARN_VECTORS];
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++) sum[i][v] = ZERO;
  const int64_t a_pitch = p->a_pitch, parts = p->parts ? p->part_count : 1;
  for (int64_t part = 0; part < parts; part++) {
    const int64_t first = p->parts ? p->parts[part] : 0;
    const int64_t *offsets = p->offsets + first, *end = offsets + p->count;
    const float *factors = a + first * a_pitch;
    for (; offsets < end; offsets++, factors += a_pitch) {
      const float *from = b + *offsets;
      VECTOR vector[GCONV_LEARN_VECTORS];
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
  VECTOR sum[GCONV_LEARN_ROWS][GCONV_LEARN_VECTORS];
  const float *from[GCONV_LEARN_ROWS];
  UNROLL for (int i = 0; i < N; i++) {
    from[i] = x + offsets[i];
    UNROLL for (int v = 0; v < V; v++) sum[i][v] = p->begins ? ZERO : LOAD(sums + i * p->out_pitch + v * LANES);
  }
  const int64_t g_pitch = p->g_pitch, columns = p->columns;
  for (int64_t row = 0; row < p->rows; row++) {
    for (int64_t m = 0; m < columns; m++, g += g_pitch) {
      VECTOR vector[GCONV_LEARN_VECTORS];
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
  VECTOR sum[GCONV_LEARN_LISTED][2];
  const float *from[GCONV_LEARN_LISTED];
  const int64_t g_pitch = p->g_pitch;
  UNROLL for (int i = 0; i < N; i++) {
    from[i] = g - offsets[i] * g_pitch;
    __asm__("" : "+r"(from[i])); /* else compilers compute it again in the loop */
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
#define TILE(N, V)                                                                                                          \
  GATHER_TILE(N, V)                                                                                                         \
  static TARGET __attribute__((noinline)) void NAME(outer_##N##_##V)(const gconv_outer *p, const int64_t *offsets,          \
                                                                     const float *x, const float *g, float *sums) {         \
    NAME(outer)(p, offsets, x, g, sums, N, V);                                                                              \
  }
#if REGISTERS == 32
#define TILES(N) TILE(N, 1) TILE(N, 2) TILE(N, 3)
#define GATHER(N)                                                                                                           \
  { NULL, NAME(gather_##N##_1), NAME(gather_##N##_2), NAME(gather_##N##_3) }
#define OUTER(N)                                                                                                            \
  { NULL, NAME(outer_##N##_1), NAME(outer_##N##_2), NAME(outer_##N##_3) }
#else
#define TILES(N) TILE(N, 1) TILE(N, 2)
#define GATHER(N)                                                                                                           \
  { NULL, NAME(gather_##N##_1), NAME(gather_##N##_2) }
#define GATHER_3(N)                                                                                                         \
  { NULL, NAME(gather_##N##_1), NAME(gather_##N##_2), NAME(gather_##N##_3) }
#define OUTER(N)                                                                                                            \
  { NULL, NAME(outer_##N##_1), NAME(outer_##N##_2) }
#endif
#define LISTED_TILE(N, V)                                                                                                   \
  static TARGET __attribute__((noinline)) void NAME(listed_##N##_##V)(const gconv_listed *p, const int64_t *offsets,        \
                                                                      const float *x, const float *g, float *sums) {        \
    NAME(listed)(p, offsets, x, g, sums, N, V);                                                                             \
  }
#define LISTED_TILES(N) LISTED_TILE(N, 1) LISTED_TILE(N, 2)
#define LISTED(N)                                                                                                           \
  { NULL, NAME(listed_##N##_1), NAME(listed_##N##_2) }
LISTED_TILES(1)
LISTED_TILES(2)
LISTED_TILES(3)
LISTED_TILES(4)
LISTED_TILES(5)
#if REGISTERS == 32
LISTED_TILES(6)
LISTED_TILES(7)
LISTED_TILES(8)
LISTED_TILES(9)
#endif
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
GATHER_TILE(1, 4)
GATHER_TILE(1, 5)
GATHER_TILE(1, 6)
#if REGISTERS == 32
TILES(7)
TILES(8)
#else
GATHER_TILE(1, 3)
GATHER_TILE(2, 3)
GATHER_TILE(3, 3)
GATHER_TILE(4, 3)
#endif

#define GATHER_1                                                                                                            \
  { NULL, NAME(gather_1_1), NAME(gather_1_2), NAME(gather_1_3), NAME(gather_1_4), NAME(gather_1_5), NAME(gather_1_6) }
static const gconv_learn_tiles NAME(tiles) = {
    .lanes = LANES,
    .list = NAME(list),
    .mark = NAME(mark),
    .any_zero = NAME(any_zero),
#if REGISTERS == 32
    .shapes = {{8, 3}, {1, 6}},
    .listed_shape = {9, 2},
    .listed = {{NULL}, LISTED(1), LISTED(2), LISTED(3), LISTED(4), LISTED(5), LISTED(6), LISTED(7), LISTED(8), LISTED(9)},
    .gather = {{NULL}, GATHER_1, GATHER(2), GATHER(3), GATHER(4), GATHER(5), GATHER(6), GATHER(7), GATHER(8)},
    .outer = {{NULL}, OUTER(1), OUTER(2), OUTER(3), OUTER(4), OUTER(5), OUTER(6), OUTER(7), OUTER(8)},
#else
    .shapes = {{6, 2}, {4, 3}, {1, 6}},
    .listed_shape = {5, 2},
    .listed = {{NULL}, LISTED(1), LISTED(2), LISTED(3), LISTED(4), LISTED(5)},
    .gather = {{NULL}, GATHER_1, GATHER_3(2), GATHER_3(3), GATHER_3(4), GATHER(5), GATHER(6)},
    .outer = {{NULL}, OUTER(1), OUTER(2), OUTER(3), OUTER(4), OUTER(5), OUTER(6)},
#endif
};
#undef GATHER_TILE
#undef TILE
#undef TILES
#undef GATHER
#undef GATHER_1
#undef GATHER_3
#undef OUTER
#undef LISTED
#undef LISTED_TILE
#undef LISTED_TILES
