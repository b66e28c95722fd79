/* SPDX-License-Identifier: MIT */
/* The tiles of direct.c for one kind of vector (each_isa.h). */

/* F and V are constants where this is inlined: F * V sums, V vectors of the input and a weight must fit in the registers. */
GCONV_INLINE TARGET void NAME(tile)(const walk *w, const float *x, const float *weights, const float *biases, float *out,
                                    int64_t pitch, const int F, const int V) {
  VECTOR sum[MOST_FILTERS][MOST_VECTORS];
  UNROLL for (int f = 0; f < F; f++) UNROLL for (int v = 0; v < V; v++) sum[f][v] = ZERO;
  UNROLL for (int f = 0; f < F; f++) UNROLL for (int v = 0; v < V; v++) __builtin_prefetch(out + f * pitch + v * LANES, 1);
  for (int32_t c = 0; c < w->channels; c++, x += w->stage.channel)
    for (int32_t t = 0; t < w->taps; t++, weights += F) {
      const float *samples = x + w->offsets[t];
      VECTOR sample[MOST_VECTORS];
      UNROLL for (int v = 0; v < V; v++) sample[v] = LOAD(samples + v * LANES);
      UNROLL for (int f = 0; f < F; f++) {
        VECTOR weight = SPREAD(weights + f);
        UNROLL for (int v = 0; v < V; v++) sum[f][v] = FMA(weight, sample[v], sum[f][v]);
      }
    }
  UNROLL for (int f = 0; f < F; f++) {
    VECTOR bias = SPREAD(biases + f);
    UNROLL for (int v = 0; v < V; v++) STORE(out + f * pitch + v * LANES, sum[f][v] + bias);
  }
}

#define TILE(F, V)                                                                                                          \
  static TARGET __attribute__((noinline)) void NAME(tile_##F##_##V)(const walk *w, const float *x, const float *weights,    \
                                                                    const float *biases, float *out, int64_t pitch) {       \
    NAME(tile)(w, x, weights, biases, out, pitch, F, V);                                                                    \
  }
#define TILES(F) TILE(F, 1) TILE(F, 2) TILE(F, 3)
#define WIDE_TILE(F) TILE(F, 6)
#define ROW(F) {NULL, NAME(tile_##F##_1), NAME(tile_##F##_2), NAME(tile_##F##_3)},
#define WIDE(F) {NULL, NAME(tile_##F##_1), NAME(tile_##F##_2), NAME(tile_##F##_3), NULL, NULL, NAME(tile_##F##_6)},
#if REGISTERS == 32
TO_8(TILES)
TO_4(WIDE_TILE)
#else
TO_4(TILES)
#endif

static const tile_set NAME(tiles) = {
    .lanes = LANES,
#if REGISTERS == 32
    .filters = 8,
    .tiles = {{NULL}, TO_4(WIDE) ROW(5) ROW(6) ROW(7) ROW(8)},
#else
    .filters = 4,
    .tiles = {{NULL}, TO_4(ROW)},
#endif
};
#undef TILE
#undef TILES
#undef WIDE_TILE
#undef ROW
#undef WIDE
