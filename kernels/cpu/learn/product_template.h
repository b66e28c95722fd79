/* SPDX-License-Identifier: MIT */
/* The tiles of product.c for one kind of vector (each_isa.h). N and V are constants where these are inlined: N * V sums, V
 * vectors and a spread number must fit in the registers. */

GCONV_INLINE TARGET void NAME(gather)(const gconv_gather *p, const float *a, const float *b, float *out, const int N,
                                      const int V) {
  VECTOR sum[GCONV_LEARN_ROWS][GCONV_LEARN_VECTORS];
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++) sum[i][v] = ZERO;
  const int64_t *offsets = p->offsets, *end = offsets + p->count;
  const int64_t a_pitch = p->a_pitch;
  for (; offsets < end; offsets++, a += a_pitch) {
    const float *from = b + *offsets;
    VECTOR vector[GCONV_LEARN_VECTORS];
    UNROLL for (int v = 0; v < V; v++) vector[v] = LOAD(from + v * LANES);
    UNROLL for (int i = 0; i < N; i++) {
      VECTOR factor = SPREAD(a + i);
      UNROLL for (int v = 0; v < V; v++) sum[i][v] = FMA(factor, vector[v], sum[i][v]);
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
    UNROLL for (int i = 0; i < N; i++) from[i] += p->x_pitch;
  }
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++)
      STORE(sums + i * p->out_pitch + v * LANES, sum[i][v]);
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
#if REGISTERS == 32
    .shapes = {{8, 3}, {1, 6}},
    .gather = {{NULL}, GATHER_1, GATHER(2), GATHER(3), GATHER(4), GATHER(5), GATHER(6), GATHER(7), GATHER(8)},
    .outer = {{NULL}, OUTER(1), OUTER(2), OUTER(3), OUTER(4), OUTER(5), OUTER(6), OUTER(7), OUTER(8)},
#else
    .shapes = {{6, 2}, {4, 3}, {1, 6}},
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
