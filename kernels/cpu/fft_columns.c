/* SPDX-License-Identifier: MIT */
/*
 * Forward transforms leave frequencies in digit-reversed order (decimation in frequency, radix 8). Backward transforms read
 * that order (decimation in time). So no pass has to reorder points.
 */
#include "fft_columns.h"
#include "base/memory.h"

#define TEMPLATE "fft_columns_template.h"
#include "each_isa.h"

static void write_twiddles(size_t size, float *twiddles) {
  for (size_t j = 0; j < size; j++) {
    twiddles[2 * j] = (float)cos(2 * M_PI * (double)j / (double)size);
    twiddles[2 * j + 1] = (float)-sin(2 * M_PI * (double)j / (double)size);
  }
}

void gconv_fft_twiddles(int log, float *twiddles) {
  write_twiddles((size_t)1 << log, twiddles);
}

/* Takes factors of `size` as radices, the largest first. Returns what is left. */
static size_t find_radices(size_t size, int *radices) {
  static const int all[] = {8, 5, 4, 3, 2};
  size_t count = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (; size % (size_t)all[i] == 0; size /= (size_t)all[i])
      if (radices)
        radices[count++] = all[i];
  if (radices)
    radices[count] = 0;
  return size;
}

size_t gconv_fft_mixed_size(size_t least) {
  size_t size = least > 0 ? least : 1;
  while (find_radices(size, NULL) > 1)
    size++;
  return size;
}

gconv_status gconv_fft_mixed_make(size_t least, gconv_fft_mixed *mixed) {
  mixed->size = gconv_fft_mixed_size(least);
  find_radices(mixed->size, mixed->radices);
  GCONV_TRY(gconv_allocate(2 * mixed->size * sizeof(float), "twiddle factors", (void **)&mixed->twiddles));
  write_twiddles(mixed->size, mixed->twiddles);
  return GCONV_OK;
}

void gconv_fft_mixed_columns(const gconv_fft_mixed *mixed, float *points, size_t pitch, size_t im, size_t columns,
                             bool forward) {
  GCONV_CALL_ISA(transform_mixed, (points, pitch, im, columns, mixed->radices, mixed->twiddles, forward));
}

void gconv_fft_columns(float *points, size_t pitch, size_t im, size_t columns, int log, const float *twiddles,
                       bool forward) {
  GCONV_CALL_ISA(transform_columns, (points, pitch, im, columns, log, twiddles, forward));
}

/* A stage of radix r leaves the frequencies of residue b modulo r in its b-th part. */
size_t gconv_fft_frequency(size_t position, size_t size) {
  size_t radix = size % 7 == 1 ? 8 : size % 7 == 2 ? 2 : 4;
  if (size == 1)
    return 0;
  size_t part = size / radix;
  return position / part + radix * gconv_fft_frequency(position % part, part);
}
