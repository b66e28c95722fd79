/* SPDX-License-Identifier: MIT */
/* The products of fft.c for one kind of vector (each_isa.h). */

/* Makes the sums of K filters and T pairs of tiles, both constants where this is inlined, for LANES frequencies. 2 * K * T
 * sums are in registers. */
GCONV_INLINE TARGET void NAME(sum_channels)(const fft_product *p, const float *taps, const float *points, float *sums,
                                            const int K, const int T) {
  VECTOR re[FILTERS][PAIRS], im[FILTERS][PAIRS];
  UNROLL for (int k = 0; k < K; k++) UNROLL for (int t = 0; t < T; t++) re[k][t] = im[k][t] = ZERO;
  for (int64_t c = 0; c < p->channels; c++, taps += p->filters * 2 * CHUNK, points += p->channel) {
    VECTOR a[PAIRS], b[PAIRS];
    UNROLL for (int t = 0; t < T; t++) {
      a[t] = LOAD(points + t * p->pair);
      b[t] = LOAD(points + t * p->pair + p->frequencies);
      KEEP(a[t]);
      KEEP(b[t]);
    }
    UNROLL for (int k = 0; k < K; k++) {
      VECTOR x = LOAD(taps + k * 2 * CHUNK), y = LOAD(taps + k * 2 * CHUNK + CHUNK);
      UNROLL for (int t = 0; t < T; t++) {
        re[k][t] = ADD_PRODUCT(x, a[t], re[k][t]);
        im[k][t] = ADD_PRODUCT(x, b[t], im[k][t]);
        re[k][t] = ADD_PRODUCT(-y, b[t], re[k][t]);
        im[k][t] = ADD_PRODUCT(y, a[t], im[k][t]);
      }
    }
  }
  UNROLL for (int k = 0; k < K; k++) UNROLL for (int t = 0; t < T; t++) {
    STORE(sums + k * p->channel + t * p->pair, re[k][t]);
    STORE(sums + k * p->channel + t * p->pair + p->frequencies, im[k][t]);
  }
}

#define FILTERS_AT_A_TIME (REGISTERS / 16)

GCONV_INLINE TARGET void NAME(multiply_pairs)(const fft_product *p, const int T) {
  const float *taps = p->taps;
  for (int64_t row = 0; row < p->rows; row++)
    for (int64_t y = 0; y < p->frequencies; y += CHUNK, taps += p->channels * p->filters * 2 * CHUNK)
      for (int64_t part = 0; part < CHUNK; part += LANES) {
        const int64_t at = row * p->pitch + y + part;
        int64_t k = 0;
        for (; k + FILTERS_AT_A_TIME <= p->filters; k += FILTERS_AT_A_TIME)
          NAME(sum_channels)
        (p, taps + k * 2 * CHUNK + part, p->points + at, p->sums + k * p->channel + at, FILTERS_AT_A_TIME, T);
        for (; k < p->filters; k++)
          NAME(sum_channels)(p, taps + k * 2 * CHUNK + part, p->points + at, p->sums + k * p->channel + at, 1, T);
      }
}

static TARGET void NAME(multiply)(const fft_product *p) {
  switch (p->pairs) {
  case 1:
    NAME(multiply_pairs)(p, 1);
    break;
  case 2:
    NAME(multiply_pairs)(p, 2);
    break;
  case 3:
    NAME(multiply_pairs)(p, 3);
    break;
  default:
    NAME(multiply_pairs)(p, 4);
    break;
  }
}
#undef FILTERS_AT_A_TIME
