/* SPDX-License-Identifier: MIT */
/* Finds which sample lies at a place outside the image, as gconv_border_index() of kernels/border.h defines it. near_index()
 * and struct beyond need fewer instructions, for places near the image. index_of() has 32 bits. */
#pragma once

#include "kernels/algorithm.h"
#include "unroll.cuh"

namespace {

/* gconv_border_index() in 32 bits, for sizes up to 2^29 and positions up to 2^30 away. */
DEVICE int index_of(gconv_border border, int i, int size) {
  if ((unsigned)i < (unsigned)size)
    return i;
  if (border == GCONV_BORDER_ZERO || border == GCONV_BORDER_CONSTANT)
    return GCONV_OUTSIDE;
  if (border == GCONV_BORDER_REPLICATE || size == 1)
    return i < 0 ? 0 : size - 1;
  const int period = border == GCONV_BORDER_WRAP ? size : border == GCONV_BORDER_SYMMETRIC ? 2 * size : 2 * size - 2;
  int j = i % period;
  j = j < 0 ? j + period : j;
  return j < size ? j : border == GCONV_BORDER_SYMMETRIC ? 2 * size - 1 - j : period - j;
}

/* gconv_border_index(), not inlined, so that it takes no registers from its kernel. It divides: for rare positions. */
template <class Int> __device__ __noinline__ Int far_index(gconv_border border, Int i, int32_t size) {
  return (Int)gconv_border_index(border, i, size);
}

/* Returns which sample of its row lies at position `sample`, or GCONV_OUTSIDE if the border has none there. Both count the
 * samples of all channels. `sample` may be outside the row. */
DEVICE int sample_in_row(const gconv_problem &problem, int sample) {
  const int channels = problem.channels;
  const int x = sample >= 0 ? sample / channels : -((channels - 1 - sample) / channels); /* division, rounded down */
  const int at = index_of(problem.border, x, problem.width);
  return at == GCONV_OUTSIDE ? GCONV_OUTSIDE : at * channels + (sample - x * channels);
}

/* gconv_border_index() for positions fewer than `size` pixels outside. They need no division. A sliding kernel has only
 * these. */
DEVICE int near_index(gconv_border border, int i, int size) {
  if ((unsigned)i < (unsigned)size)
    return i;
  int mirrored = i < 0 ? -i : 2 * size - 2 - i; /* reflect101 */
  switch (border) {
  case GCONV_BORDER_REPLICATE:
    return i < 0 ? 0 : size - 1;
  case GCONV_BORDER_SYMMETRIC:
    return i < 0 ? mirrored - 1 : mirrored + 1;
  case GCONV_BORDER_REFLECT101:
    return mirrored;
  case GCONV_BORDER_WRAP:
    return i < 0 ? i + size : i - size;
  case GCONV_BORDER_ZERO:
  case GCONV_BORDER_CONSTANT:
    break;
  }
  return GCONV_OUTSIDE;
}

/* Returns whether near_index() suffices for an axis: for all positions under the taps, and for `vain` more positions that
 * are loaded but not used. */
inline bool is_near(int32_t size, int64_t pad, int32_t out_size, int32_t taps, int vain) {
  return pad < size && out_size - pad + taps + vain < 2 * (int64_t)size;
}

/* The border without branches: position i before the image is sample low + step * i, position i after it is sample high +
 * step * i. If there is no such sample, the result is negative. The branches of near_index() jump through a table; they took
 * most of the time of small images. */
struct beyond {
  int size, step, low, high;
  DEVICE beyond(gconv_border border, int size) : size(size) {
    const bool mirrors = border == GCONV_BORDER_SYMMETRIC || border == GCONV_BORDER_REFLECT101;
    const bool wraps = border == GCONV_BORDER_WRAP, repeats = border == GCONV_BORDER_REPLICATE;
    const int twice = border == GCONV_BORDER_SYMMETRIC ? 1 : 0; /* 1 if the sample at the edge is repeated */
    step = mirrors ? -1 : wraps ? 1 : 0;
    low = mirrors ? -twice : wraps ? size : repeats ? 0 : GCONV_OUTSIDE;
    high = mirrors ? 2 * size - 2 + twice : wraps ? -size : repeats ? size - 1 : GCONV_OUTSIDE;
  }
  DEVICE int index(int i) const {
    return (unsigned)i < (unsigned)size ? i : (i < 0 ? low : high) + step * i;
  }
};

} // namespace
