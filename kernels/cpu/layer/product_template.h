/* SPDX-License-Identifier: MIT */
/* The tiles of product.c for one kind of vector (each_isa.h). */

/* N, V and the steps 1 and GCONV_BLOCK are constants where this is inlined. N * V sums, V vectors of weights and a sample
 * must fit in the registers. */
GCONV_INLINE TARGET void NAME(tile)(const gconv_panel *p, const float *x, float *sums, const int N, const int V,
                                    const int64_t step) {
  VECTOR sum[GCONV_PRODUCT_PIXELS][GCONV_PRODUCT_VECTORS];
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++) sum[i][v] =
      p->begins ? ZERO : LOAD(sums + (i * V + v) * LANES);
  const float *weights = p->weights, *ahead = p->ahead ? p->ahead : weights, *soon = p->soon ? p->soon : x;
  const int64_t *soon_offsets = p->soon ? p->soon_offsets : p->offsets;
  for (int32_t c = 0; c < p->channels; c++, x += p->channel)
    for (int32_t t = 0; t < p->taps; t++, weights += V * LANES, ahead += LANES) {
      const float *samples = x + p->offsets[t];
      VECTOR weight[GCONV_PRODUCT_VECTORS];
      FETCH_FAR(ahead);
      FETCH(soon + soon_offsets[t]);
      UNROLL for (int v = 0; v < V; v++) weight[v] = LOAD(weights + v * LANES);
      UNROLL for (int i = 0; i < N; i++) {
        VECTOR sample = SPREAD(samples + i * step);
        UNROLL for (int v = 0; v < V; v++) sum[i][v] = FMA(weight[v], sample, sum[i][v]);
      }
    }
  UNROLL for (int i = 0; i < N; i++) UNROLL for (int v = 0; v < V; v++) STORE(sums + (i * V + v) * LANES, sum[i][v]);
}

/* Does what NAME(tile) does with V = 1, for the lower half of the vector only. Half vectors take half as long. */
#if LANES == 16
#define HALF __m256
#define OF_HALF(operation) _mm256_##operation
#elif LANES == 8
#define HALF __m128
#define OF_HALF(operation) _mm_##operation
#endif
#ifdef HALF
GCONV_INLINE TARGET void NAME(half)(const gconv_panel *p, const float *x, float *sums, const int N, const int64_t step) {
  HALF sum[GCONV_PRODUCT_PIXELS];
  UNROLL for (int i = 0; i < N; i++) sum[i] = p->begins ? OF_HALF(setzero_ps)() : OF_HALF(loadu_ps)(sums + i * LANES);
  const float *weights = p->weights;
  for (int32_t c = 0; c < p->channels; c++, x += p->channel)
    for (int32_t t = 0; t < p->taps; t++, weights += LANES) {
      const float *samples = x + p->offsets[t];
      const HALF weight = OF_HALF(loadu_ps)(weights);
      UNROLL for (int i = 0; i < N; i++) sum[i] = OF_HALF(fmadd_ps)(weight, OF_HALF(set1_ps)(samples[i * step]), sum[i]);
    }
  UNROLL for (int i = 0; i < N; i++) OF_HALF(storeu_ps)(sums + i * LANES, sum[i]);
}
#define HALF_TILE(N)                                                                                                        \
  static TARGET __attribute__((noinline)) void NAME(tile_##N##_0)(const gconv_panel *p, const float *x, float *sums) {      \
    NAME(half)(p, x, sums, N, 1);                                                                                           \
  }                                                                                                                         \
  static TARGET __attribute__((noinline)) void NAME(apart_##N##_0)(const gconv_panel *p, const float *x, float *sums) {     \
    NAME(half)(p, x, sums, N, p->step);                                                                                     \
  }                                                                                                                         \
  static TARGET __attribute__((noinline)) void NAME(block_##N##_0)(const gconv_panel *p, const float *x, float *sums) {     \
    NAME(half)(p, x, sums, N, GCONV_BLOCK);                                                                                 \
  }
#define FIRST(kind, N) NAME(kind##_##N##_0)
#else
#define HALF_TILE(N)
#define FIRST(kind, N) NULL
#endif

#define TILE(N, V)                                                                                                          \
  static TARGET __attribute__((noinline)) void NAME(tile_##N##_##V)(const gconv_panel *p, const float *x, float *sums) {    \
    NAME(tile)(p, x, sums, N, V, 1);                                                                                        \
  }                                                                                                                         \
  static TARGET __attribute__((noinline)) void NAME(apart_##N##_##V)(const gconv_panel *p, const float *x, float *sums) {   \
    NAME(tile)(p, x, sums, N, V, p->step);                                                                                  \
  }                                                                                                                         \
  static TARGET __attribute__((noinline)) void NAME(block_##N##_##V)(const gconv_panel *p, const float *x, float *sums) {   \
    NAME(tile)(p, x, sums, N, V, GCONV_BLOCK);                                                                              \
  }
#define TILES(N) HALF_TILE(N) TILE(N, 1) TILE(N, 2)
#define TILE_ROW(N) {FIRST(tile, N), NAME(tile_##N##_1), NAME(tile_##N##_2)},
#define APART_ROW(N) {FIRST(apart, N), NAME(apart_##N##_1), NAME(apart_##N##_2)},
#define BLOCK_ROW(N) {FIRST(block, N), NAME(block_##N##_1), NAME(block_##N##_2)},
#if REGISTERS == 32
#define EACH(X) TO_14(X)
#else
#define EACH(X) TO_6(X)
#endif
EACH(TILES)

/* to[f * pitch + i] = from[i * stride + f] + biases[f] for i, f < LANES, within the bounds. */
static TARGET void NAME(turn)(const float *from, int64_t stride, const float *biases, const gconv_layer_bounds *bounds,
                              float *to, int64_t pitch) {
  const VECTOR low = SPREAD(&bounds->low), high = SPREAD(&bounds->high);
#if LANES == 16
  __m512 a[16], b[16];
  UNROLL for (int i = 0; i < 16; i++) a[i] = AT_MOST(AT_LEAST(LOAD(from + i * stride) + LOAD(biases), low), high);
  UNROLL for (int i = 0; i < 16; i += 4) { /* 4 x 4 within each quarter of the vectors */
    __m512 l0 = _mm512_unpacklo_ps(a[i], a[i + 1]), h0 = _mm512_unpackhi_ps(a[i], a[i + 1]);
    __m512 l1 = _mm512_unpacklo_ps(a[i + 2], a[i + 3]), h1 = _mm512_unpackhi_ps(a[i + 2], a[i + 3]);
    b[i] = _mm512_shuffle_ps(l0, l1, 0x44), b[i + 1] = _mm512_shuffle_ps(l0, l1, 0xee);
    b[i + 2] = _mm512_shuffle_ps(h0, h1, 0x44), b[i + 3] = _mm512_shuffle_ps(h0, h1, 0xee);
  }
  UNROLL for (int i = 0; i < 4; i++) { /* then quarters; b[4 * j + i] has filters i, i + 4, i + 8, i + 12 of pixels 4j .. */
    __m512 l0 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88), h0 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
    __m512 l1 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88), h1 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
    STORE(to + i * pitch, _mm512_shuffle_f32x4(l0, l1, 0x88));
    STORE(to + (i + 4) * pitch, _mm512_shuffle_f32x4(h0, h1, 0x88));
    STORE(to + (i + 8) * pitch, _mm512_shuffle_f32x4(l0, l1, 0xdd));
    STORE(to + (i + 12) * pitch, _mm512_shuffle_f32x4(h0, h1, 0xdd));
  }
#elif LANES == 8
  __m256 a[8], b[8];
  UNROLL for (int i = 0; i < 8; i++) a[i] = AT_MOST(AT_LEAST(LOAD(from + i * stride) + LOAD(biases), low), high);
  UNROLL for (int i = 0; i < 8; i += 4) {
    __m256 l0 = _mm256_unpacklo_ps(a[i], a[i + 1]), h0 = _mm256_unpackhi_ps(a[i], a[i + 1]);
    __m256 l1 = _mm256_unpacklo_ps(a[i + 2], a[i + 3]), h1 = _mm256_unpackhi_ps(a[i + 2], a[i + 3]);
    b[i] = _mm256_shuffle_ps(l0, l1, 0x44), b[i + 1] = _mm256_shuffle_ps(l0, l1, 0xee);
    b[i + 2] = _mm256_shuffle_ps(h0, h1, 0x44), b[i + 3] = _mm256_shuffle_ps(h0, h1, 0xee);
  }
  UNROLL for (int i = 0; i < 4; i++) {
    STORE(to + i * pitch, _mm256_permute2f128_ps(b[i], b[4 + i], 0x20));
    STORE(to + (i + 4) * pitch, _mm256_permute2f128_ps(b[i], b[4 + i], 0x31));
  }
#else
  (void)low;
  (void)high;
  for (int f = 0; f < LANES; f++)
    for (int i = 0; i < LANES; i++) {
      const float sum = from[i * stride + f] + biases[f];
      to[f * pitch + i] = sum < bounds->low ? bounds->low : sum > bounds->high ? bounds->high : sum;
    }
#endif
}

#if LANES == 16
#define STREAM(to, vector) _mm512_stream_ps(to, vector)
#else
#define STREAM(to, vector) STORE(to, vector)
#endif
static TARGET void NAME(store)(const float *from, int64_t stride, const float *biases, const gconv_layer_bounds *bounds,
                               int64_t pixels, float *to, const float *added) {
  const VECTOR low = SPREAD(&bounds->low), high = SPREAD(&bounds->high), bias = LOAD(biases);
  for (int64_t i = 0; i < pixels; i++) {
    VECTOR sum = LOAD(from + i * stride) + bias;
    if (added)
      sum = sum + LOAD(added + i * GCONV_BLOCK);
    const VECTOR bounded = AT_MOST(AT_LEAST(sum, low), high);
    if (bounds->streams)
      STREAM(to + i * GCONV_BLOCK, bounded);
    else
      STORE(to + i * GCONV_BLOCK, bounded);
  }
}
#undef STREAM

static const gconv_product NAME(product) = {
    .lanes = LANES,
    .turn = NAME(turn),
    .store = NAME(store),
    .pixels = REGISTERS == 32 ? 14 : 6,
    .tiles = {{{NULL}, EACH(TILE_ROW)}, {{NULL}, EACH(APART_ROW)}, {{NULL}, EACH(BLOCK_ROW)}},
};
#undef TILE
#undef TILES
#undef TILE_ROW
#undef APART_ROW
#undef BLOCK_ROW
#undef EACH
#undef FIRST
#undef HALF_TILE
#undef HALF
#undef OF_HALF
