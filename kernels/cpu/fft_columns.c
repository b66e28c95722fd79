/* SPDX-License-Identifier: MIT */
/*
 * Forward transforms leave frequencies in digit-reversed order (decimation in frequency, radix 8). Backward transforms read
 * that order (decimation in time). So no points change places.
 */
#include "fft_columns.h"

#define TEMPLATE "fft_columns_template.h"
#include "each_isa.h"

void gconv_fft_twiddles(int log, float *twiddles) {
  const double size = (double)((size_t)1 << log);
  for (size_t j = 0; j < (size_t)1 << log; j++) {
    twiddles[2 * j] = (float)cos(2 * M_PI * (double)j / size);
    twiddles[2 * j + 1] = (float)-sin(2 * M_PI * (double)j / size);
  }
}

void gconv_fft_columns(float *points, size_t pitch, size_t im, size_t samples, int log, const float *twiddles,
                       bool forward) {
  GCONV_CALL_ISA(transform_columns, (points, pitch, im, samples, log, twiddles, forward));
}

/* A stage of radix r leaves the frequencies of residue b modulo r in its b-th part. */
size_t gconv_fft_frequency(size_t position, size_t size) {
  size_t radix = size % 7 == 1 ? 8 : size % 7 == 2 ? 2 : 4;
  if (size == 1)
    return 0;
  size_t part = size / radix;
  return position / part + radix * gconv_fft_frequency(position % part, part);
}
