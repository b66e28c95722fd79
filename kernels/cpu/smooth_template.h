/* SPDX-License-Identifier: MIT */
/* The loops of smooth.h for one kind of vector (each_isa.h). Which orders are wanted is constant where this is inlined. */

enum { NAME(SIDE) = 2 }; /* vectors side by side, so that no sum waits for the one before it */

GCONV_INLINE TARGET void NAME(smooth_place)(const gconv_smoothing *s, const float *in, size_t at, bool zero, bool one,
                                            bool two) {
  VECTOR sum[NAME(SIDE)], slope[NAME(SIDE)], bend[NAME(SIDE)];
  UNROLL for (int v = 0; v < NAME(SIDE); v++) {
    VECTOR middle = LOAD(in + v * LANES);
    sum[v] = bend[v] = slope[v] = ZERO;
    if (zero)
      sum[v] = SPREAD(s->taps[0]) * middle;
    if (two)
      bend[v] = SPREAD(s->taps[2]) * middle;
  }
  const float *ahead = in, *behind = in;
  for (int32_t k = 1; k <= s->radius; k++) {
    ahead += s->step;
    behind -= s->step;
    UNROLL for (int v = 0; v < NAME(SIDE); v++) {
      VECTOR a = LOAD(ahead + v * LANES), b = LOAD(behind + v * LANES), both = a + b;
      if (zero)
        sum[v] = FMA(SPREAD(s->taps[0] + k), both, sum[v]);
      if (one)
        slope[v] = FMA(SPREAD(s->taps[1] + k), a - b, slope[v]);
      if (two)
        bend[v] = FMA(SPREAD(s->taps[2] + k), both, bend[v]);
    }
  }
  UNROLL for (int v = 0; v < NAME(SIDE); v++) {
    if (zero)
      STORE(s->out[0] + at + v * LANES, sum[v]);
    if (one)
      STORE(s->out[1] + at + v * LANES, slope[v]);
    if (two)
      STORE(s->out[2] + at + v * LANES, bend[v]);
  }
}

GCONV_INLINE TARGET void NAME(smooth_all)(const gconv_smoothing *s, bool zero, bool one, bool two) {
  size_t width = (s->width + GCONV_SMOOTH_WIDTH - 1) / GCONV_SMOOTH_WIDTH * GCONV_SMOOTH_WIDTH;
  for (size_t y = 0; y < s->rows; y++)
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
