/* SPDX-License-Identifier: MIT */
/* fft of float64 for sums of integers, whose error is below one half: rounding makes them exact (fft_exact.c). */
#pragma once

#include "kernels/algorithm.h"

enum { CHAIN = 256 }; /* the most taps along a row that are added one after the other; then the sums of chains are added */

/* The arguments of filter_rows() of fft_template.h, which reads rows of spectra at `points` and writes their sums to `sums`.
 * Both may be the same memory: floats, or doubles for fft_exact.c. If `add`, it adds to the sums in memory. A pitch is the
 * distance from real to imaginary parts. */
typedef struct fft_rows {
  const void *points;
  size_t pitch;
  void *sums;
  size_t sums_pitch;
  bool add;
} fft_rows;

/* Returns whether fft_exact.c can compute a problem with columns of 2^log points. It needs samples and taps of
 * integers, the range "wrap", filters that fit into a column, and an error bound below one half. */
bool gconv_fft_exact_fits(const gconv_problem *problem, int log);

/* fft.c calls these functions in its functions of gconv_algorithm. Columns have 2^log points. */
size_t gconv_fft_exact_workspace(const gconv_problem *problem, int log);
size_t gconv_fft_exact_floats(const gconv_problem *problem, int log);
gconv_status gconv_fft_exact_prepare(const gconv_problem *problem, int log, const float *taps, float *prepared);
gconv_status gconv_fft_exact_execute(const gconv_execution *execution, int log);
