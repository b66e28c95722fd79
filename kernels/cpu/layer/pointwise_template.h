/* SPDX-License-Identifier: MIT */
/* The tiles of pointwise.c for one kind of vector (each_isa.h). */

/* F and V are constants where this is inlined: F * V sums, V vectors of samples and a weight must fit in the registers. */
GCONV_INLINE TARGET void NAME(tile)(const float *x, const float *weights, const float *biases, int32_t channels,
                                    const gconv_layer_bounds *bounds, float *out, int64_t pitch, const int F, const int V) {
  const VECTOR low = SPREAD(&bounds->low), high = SPREAD(&bounds->high);
  VECTOR sum[MOST_FILTERS][MOST_VECTORS];
  UNROLL for (int f = 0; f < F; f++) UNROLL for (int v = 0; v < V; v++) sum[f][v] = ZERO;
  for (int32_t c = 0; c < channels; c++, x += V * LANES, weights += F) {
    VECTOR sample[MOST_VECTORS];
    FETCH(weights + (int64_t)F * channels); /* of the next block */
    UNROLL for (int v = 0; v < V; v++) sample[v] = LOAD(x + v * LANES);
    UNROLL for (int f = 0; f < F; f++) {
      VECTOR weight = SPREAD(weights + f);
      UNROLL for (int v = 0; v < V; v++) sum[f][v] = FMA(weight, sample[v], sum[f][v]);
    }
  }
  UNROLL for (int f = 0; f < F; f++) {
    VECTOR bias = SPREAD(biases + f);
    UNROLL for (int v = 0; v < V; v++) STORE(out + f * pitch + v * LANES, AT_MOST(AT_LEAST(sum[f][v] + bias, low), high));
  }
}

#define TILE(F, V)                                                                                                          \
  static TARGET __attribute__((noinline)) void NAME(tile_##F##_##V)(                                                        \
      const float *x, const float *weights, const float *biases, int32_t channels, const gconv_layer_bounds *bounds,        \
      float *out, int64_t pitch) {                                                                                          \
    NAME(tile)(x, weights, biases, channels, bounds, out, pitch, F, V);                                                     \
  }
#define TILES(F) TILE(F, 1) TILE(F, 2) TILE(F, 3)
#define WIDE_TILES(F) TILES(F) TILE(F, 4)
#define ROW(F) {NULL, NAME(tile_##F##_1), NAME(tile_##F##_2), NAME(tile_##F##_3)},
#define WIDE_ROW(F) {NULL, NAME(tile_##F##_1), NAME(tile_##F##_2), NAME(tile_##F##_3), NAME(tile_##F##_4)},
#if REGISTERS == 32
TO_6(WIDE_TILES)
TILES(7)
TILES(8)
TILES(9)
#else
TO_4(TILES)
#endif

/* Copies channels first .. end - 1 of `channels`, which are `plane` floats apart, in the order of pack(). */
static TARGET void NAME(copy)(const float *from, int64_t plane, int32_t first, int32_t end, int32_t channels,
                              int32_t vectors, int32_t tiles, float *to) {
  for (int32_t c = first; c < end; c++, from += plane) {
    const float *x = from;
    float *tile = to;
    for (int32_t t = 0; t < tiles; t++) {
      const int32_t V = tile_vectors(vectors, tiles, t);
      for (int32_t v = 0; v < V; v++, x += LANES) {
        FETCH(x + PLANES_AHEAD * plane);
        STORE(tile + ((int64_t)c * V + v) * LANES, LOAD(x));
      }
      tile += (int64_t)channels * V * LANES;
    }
  }
}

static const tile_set NAME(tiles) = {
    .lanes = LANES,
    .copy = NAME(copy),
#if REGISTERS == 32
    .filters = {0, 9, 9, 9, 6},
    .tiles = {{NULL}, TO_6(WIDE_ROW) ROW(7) ROW(8) ROW(9)},
#else
    .filters = {0, 4, 4, 4, 0},
    .tiles = {{NULL}, TO_4(ROW)},
#endif
};
#undef TILE
#undef TILES
#undef WIDE_TILES
#undef ROW
#undef WIDE_ROW
