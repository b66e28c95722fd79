/* SPDX-License-Identifier: MIT */
/* The loops of smooth.h for one kind of vector (each_isa.h). zero, one and two say which orders are wanted. They are
 * constants where functions are inlined. */

enum { NAME(SIDE) = 2 }; /* vectors side by side: their independent sums hide the latency of additions */

typedef struct NAME(smooth_sums) {
  VECTOR twice[NAME(SIDE)]; /* the middle samples, times 2 */
  VECTOR sum[NAME(SIDE)], slope[NAME(SIDE)], bend[NAME(SIDE)];
} NAME(smooth_sums);

GCONV_INLINE TARGET void NAME(smooth_begin)(const float *in, NAME(smooth_sums) * n) {
  UNROLL for (int v = 0; v < NAME(SIDE); v++) {
    VECTOR middle = LOAD(in + v * LANES);
    n->sum[v] = n->bend[v] = n->slope[v] = ZERO;
    n->twice[v] = middle + middle;
  }
}

/* Adds the samples k steps ahead and behind. */
GCONV_INLINE TARGET void NAME(smooth_add)(const gconv_smoothing *s, int32_t k, const VECTOR *ahead, const VECTOR *behind,
                                          NAME(smooth_sums) * n, bool zero, bool one, bool two) {
  UNROLL for (int v = 0; v < NAME(SIDE); v++) {
    VECTOR both = ahead[v] + behind[v] - n->twice[v];
    if (zero)
      n->sum[v] = FMA(SPREAD(s->taps[0] + k), both, n->sum[v]);
    if (one)
      n->slope[v] = FMA(SPREAD(s->taps[1] + k), ahead[v] - behind[v], n->slope[v]);
    if (two)
      n->bend[v] = FMA(SPREAD(s->taps[2] + k), both, n->bend[v]);
  }
}

GCONV_INLINE TARGET void NAME(smooth_end)(const gconv_smoothing *s, size_t at, const NAME(smooth_sums) * n, bool zero,
                                          bool one, bool two) {
  UNROLL for (int v = 0; v < NAME(SIDE); v++) {
    if (zero)
      STORE(s->out[0] + at + v * LANES, n->sum[v] + 0.5F * n->twice[v]);
    if (one)
      STORE(s->out[1] + at + v * LANES, n->slope[v]);
    if (two)
      STORE(s->out[2] + at + v * LANES, n->bend[v]);
  }
}

GCONV_INLINE TARGET void NAME(smooth_load)(const float *from, VECTOR *to) {
  UNROLL for (int v = 0; v < NAME(SIDE); v++) to[v] = LOAD(from + v * LANES);
}

GCONV_INLINE TARGET void NAME(smooth_place)(const gconv_smoothing *s, const float *in, size_t at, bool zero, bool one,
                                            bool two) {
  NAME(smooth_sums) n;
  VECTOR ahead[NAME(SIDE)], behind[NAME(SIDE)];
  NAME(smooth_begin)(in, &n);
  for (int32_t k = 1; k <= s->radius; k++) {
    NAME(smooth_load)(in + (size_t)k * s->step, ahead);
    NAME(smooth_load)(in - (size_t)k * s->step, behind);
    NAME(smooth_add)(s, k, ahead, behind, &n, zero, one, two);
  }
  NAME(smooth_end)(s, at, &n, zero, one, two);
}

/* Smooths two neighbouring rows in y together. In each step, the lower row loads a new sample ahead of it, which the upper
 * row uses in the next step. Likewise, the upper row loads the sample behind it, which the lower row uses in the next step.
 * So half as many samples are loaded. */
GCONV_INLINE TARGET void NAME(smooth_pair)(const gconv_smoothing *s, const float *in, size_t at, bool zero, bool one,
                                           bool two) {
  NAME(smooth_sums) upper, lower;
  VECTOR ahead[NAME(SIDE)], behind[NAME(SIDE)], next[NAME(SIDE)];
  NAME(smooth_begin)(in, &upper);
  NAME(smooth_begin)(in + s->step, &lower);
  NAME(smooth_load)(in + s->step, ahead);
  NAME(smooth_load)(in, behind);
  for (int32_t k = 1; k <= s->radius; k++) {
    NAME(smooth_load)(in + (size_t)(k + 1) * s->step, next);
    NAME(smooth_add)(s, k, next, behind, &lower, zero, one, two);
    NAME(smooth_load)(in - (size_t)k * s->step, behind);
    NAME(smooth_add)(s, k, ahead, behind, &upper, zero, one, two);
    UNROLL for (int v = 0; v < NAME(SIDE); v++) ahead[v] = next[v];
  }
  NAME(smooth_end)(s, at, &upper, zero, one, two);
  NAME(smooth_end)(s, at + s->out_pitch, &lower, zero, one, two);
}

GCONV_INLINE TARGET void NAME(smooth_all)(const gconv_smoothing *s, bool zero, bool one, bool two) {
  size_t width = (s->width + GCONV_SMOOTH_WIDTH - 1) / GCONV_SMOOTH_WIDTH * GCONV_SMOOTH_WIDTH, y = 0;
  const bool pairs = s->step == s->in_pitch && zero + one + two < 3; /* the sums of three orders fill the registers */
  for (; pairs && y + 1 < s->rows; y += 2)
    for (size_t x = 0; x < width; x += (size_t)NAME(SIDE) * LANES)
      NAME(smooth_pair)(s, s->in + y * s->in_pitch + x, y * s->out_pitch + x, zero, one, two);
  for (; y < s->rows; y++)
    for (size_t x = 0; x < width; x += (size_t)NAME(SIDE) * LANES)
      NAME(smooth_place)(s, s->in + y * s->in_pitch + x, y * s->out_pitch + x, zero, one, two);
}

static TARGET void NAME(smooth)(const gconv_smoothing *s) {
  const bool one = s->out[1], two = s->out[2];
  if (s->out[0] && one && two)
    NAME(smooth_all)(s, true, true, true);
  else if (s->out[0] && one)
    NAME(smooth_all)(s, true, true, false);
  else if (s->out[0] && two)
    NAME(smooth_all)(s, true, false, true);
  else if (s->out[0])
    NAME(smooth_all)(s, true, false, false);
  else if (one && two)
    NAME(smooth_all)(s, false, true, true);
  else if (one)
    NAME(smooth_all)(s, false, true, false);
  else if (two)
    NAME(smooth_all)(s, false, false, true);
}
