/* SPDX-License-Identifier: MIT */
/* Filters as lists of the taps that are not 0. The algorithm sparse has them after its weights, on both devices: the number
 * of taps of each filter; then all taps; then the row of each tap; then the column of each. Rows and columns are at most
 * 2^24, so that floats hold them. */
#pragma once

#include "kernels/problem.h"

/* prepared_floats() and prepare() of an algorithm (algorithm.h). */
static inline size_t gconv_sparse_floats(const gconv_problem *problem) {
  return (size_t)problem->filters + 3 * (size_t)problem->structure.nonzero_taps;
}

static inline gconv_status gconv_sparse_prepare(const gconv_problem *problem, const float *taps, float *prepared) {
  size_t all = (size_t)problem->structure.nonzero_taps, t = 0;
  float *values = prepared + problem->filters, *rows = values + all, *columns = rows + all;
  for (int32_t k = 0; k < problem->filters; k++) {
    size_t before = t;
    for (int32_t r = 0; r < problem->rows; r++)
      for (int32_t s = 0; s < problem->columns; s++, taps++)
        if (*taps != 0) {
          values[t] = *taps;
          rows[t] = (float)r;
          columns[t++] = (float)s;
        }
    prepared[k] = (float)(t - before);
  }
  return GCONV_OK;
}
