/* SPDX-License-Identifier: MIT */
/* Fourier transforms of the columns of a tile of complex points, for the algorithms `fft` of filters and of layers. Vectors
 * hold neighbouring columns. */
#pragma once

#include "base/both.h"
#include "base/status.h"

GCONV_C_BEGIN

enum {
  GCONV_FFT_LEAST_LOG = 4, /* log2 of the shortest column */
  GCONV_FFT_MOST_LOG = 12  /* log2 of the longest column */
};

/* Writes the 2^log twiddle factors exp(-2 pi i j / 2^log), as pairs of floats. */
void gconv_fft_twiddles(int log, float *twiddles);

/* Replaces each column of 2^log points by its transform, or, if not `forward`, by 2^log times its inverse transform. The
 * point in row y and column x has its real part at points[y * pitch + x] and its imaginary part `im` floats after it.
 * There are `columns` columns; those up to the next multiple of 16 change, too. Spectra have their frequencies in the order
 * of gconv_fft_frequency(). The results are the same on all processors with fused multiply-adds. If pitch / 16 is odd, a
 * column's points are in different sets of the L1 cache. */
void gconv_fft_columns(float *points, size_t pitch, size_t im, size_t columns, int log, const float *twiddles, bool forward);

/* Returns the frequency in row `position` of a spectrum of `size` points. */
size_t gconv_fft_frequency(size_t position, size_t size);

/* Columns of a size that is a product of 2, 3 and 5. Their frequencies have an order of their own, the same for all columns
 * of the size. */
typedef struct gconv_fft_mixed {
  size_t size;
  int radices[64]; /* of the stages; 0 ends them */
  float *twiddles; /* owned: free them with gconv_release() */
} gconv_fft_mixed;

/* gconv_fft_mixed_size() returns the smallest such size from `least` on; gconv_fft_mixed_make() prepares it. */
size_t gconv_fft_mixed_size(size_t least);
gconv_status gconv_fft_mixed_make(size_t least, gconv_fft_mixed *mixed);
/* Does gconv_fft_columns() for columns of this size. */
void gconv_fft_mixed_columns(const gconv_fft_mixed *mixed, float *points, size_t pitch, size_t im, size_t columns,
                             bool forward);

GCONV_C_END
