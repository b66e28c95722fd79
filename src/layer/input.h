/* SPDX-License-Identifier: MIT */
/*
 * The two ends of a network, compiled for host and device from one text: from stored samples to float32, and from the K
 * outputs of the last layer to what they are combined to. Every operation is rounded by itself, so the bits are the same.
 *
 * Mean and std are applied here rather than folded into weights and biases. Where a filter reaches over the border, it sees
 * zeros, which stand for mean-coloured pixels; folded, a zero would stand for black, and the bias would have to change from
 * place to place. And w * (1 / std) rounds differently from (x - mean) / std.
 */
#ifndef GCONV_LAYER_INPUT_H
#define GCONV_LAYER_INPUT_H

#include "layer/network.h"

/* What one sample becomes. */
GCONV_BOTH float gconv_normalize(float level, float white, float mean, float std) {
  return (level / white - mean) / std;
}

/* A row of one channel: `step` samples from a pixel to the next. */
#define GCONV_NORMALIZE_ROW(name, type)                                                                                     \
  static inline void name(const type *from, ptrdiff_t step, int32_t width, float white, float mean, float std, float *to) { \
    for (int32_t x = 0; x < width; x++)                                                                                     \
      to[x] = gconv_normalize((float)from[x * step], white, mean, std);                                                     \
  }

/* Combines `count` values that are `distance` apart; of argmax, the number of the filter among `filters`. NaN is never
 * larger than a number, and no number larger than it. */
GCONV_BOTH float gconv_combine_values(gconv_combine combine, const float *values, int32_t count, int64_t distance,
                                      int32_t filters) {
  float sum = gconv_combine_first(combine, values[0]);
  int32_t largest = 0;
  for (int32_t k = 1; k < count; k++) {
    float value = values[k * distance];
    if (combine == GCONV_COMBINE_ARGMAX)
      largest = value > sum ? k : largest;
    sum = gconv_combine_next(combine, sum, value);
  }
  return combine == GCONV_COMBINE_ARGMAX ? (float)(largest % filters) : gconv_combine_last(combine, sum);
}

#endif
