/* SPDX-License-Identifier: MIT */
/* The row of sums of depthwise.c for one kind of vector (each_isa.h). */

/* Makes V vectors of sums. V is a constant where this is inlined. */
GCONV_INLINE TARGET void NAME(tile)(const float *x, const int64_t *offsets, const float *weights, int32_t taps,
                                    const VECTOR bias, const VECTOR low, const VECTOR high, float *out, const int V) {
  VECTOR sum[MOST_VECTORS];
  UNROLL for (int v = 0; v < V; v++) sum[v] = ZERO;
  for (int32_t t = 0; t < taps; t++) {
    const float *samples = x + offsets[t];
    const VECTOR weight = SPREAD(weights + t);
    UNROLL for (int v = 0; v < V; v++) sum[v] = FMA(weight, LOAD(samples + v * LANES), sum[v]);
  }
  UNROLL for (int v = 0; v < V; v++) STORE(out + v * LANES, AT_MOST(AT_LEAST(sum[v] + bias, low), high));
}

/* Makes out[i] for 0 <= i < count, and up to LANES - 1 more. */
static TARGET void NAME(sums)(const float *x, const int64_t *offsets, const float *weights, int32_t taps, float bias,
                              const gconv_layer_bounds *bounds, float *out, int64_t count) {
  const VECTOR spread = SPREAD(&bias), low = SPREAD(&bounds->low), high = SPREAD(&bounds->high);
  int64_t i = 0;
  for (; i + (MOST_VECTORS - 1) * LANES < count; i += (int64_t)MOST_VECTORS * LANES)
    NAME(tile)(x + i, offsets, weights, taps, spread, low, high, out + i, MOST_VECTORS);
  for (; i < count; i += LANES)
    NAME(tile)(x + i, offsets, weights, taps, spread, low, high, out + i, 1);
}

/* Makes N outputs of a vector of channels. N is a constant where this is inlined. */
GCONV_INLINE TARGET void NAME(pixels)(const block_row *r, const float *x, const float *weights, float *out,
                                      const VECTOR bias, const int N) {
  const VECTOR low = SPREAD(&r->bounds.low), high = SPREAD(&r->bounds.high);
  VECTOR sum[MOST_PIXELS];
  UNROLL for (int i = 0; i < N; i++) sum[i] = ZERO;
  for (int32_t t = 0; t < r->taps; t++) {
    const float *samples = x + r->offsets[t];
    const VECTOR weight = LOAD(weights + t * GCONV_BLOCK);
    UNROLL for (int i = 0; i < N; i++) sum[i] = FMA(weight, LOAD(samples + i * r->step), sum[i]);
  }
  UNROLL for (int i = 0; i < N; i++) STORE(out + i * GCONV_BLOCK, AT_MOST(AT_LEAST(sum[i] + bias, low), high));
}

static TARGET void NAME(block)(const block_row *row, const float *x, int64_t count, float *out) {
  for (int f = 0; f < GCONV_BLOCK; f += LANES) {
    const VECTOR bias = LOAD(row->biases + f);
    int64_t i = 0;
    for (; i + MOST_PIXELS <= count; i += MOST_PIXELS)
      NAME(pixels)(row, x + i * row->step + f, row->weights + f, out + i * GCONV_BLOCK + f, bias, MOST_PIXELS);
    for (; i + 4 <= count; i += 4)
      NAME(pixels)(row, x + i * row->step + f, row->weights + f, out + i * GCONV_BLOCK + f, bias, 4);
    for (; i < count; i++)
      NAME(pixels)(row, x + i * row->step + f, row->weights + f, out + i * GCONV_BLOCK + f, bias, 1);
  }
}
