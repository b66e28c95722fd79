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
