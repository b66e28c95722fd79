/* SPDX-License-Identifier: MIT */
/*
 * The two ends of a network, compiled for host and device from one text: from stored samples to float32, and from the K
 * outputs of the last layer to their combination. Every operation is rounded by itself, so the bits are the same.
 *
 * Mean and std are applied here; they are not folded into weights and biases. A filter that reaches over the border sees
 * zeros, which stand for pixels of the mean colour. If mean and std were folded, a zero would stand for black, and the bias
 * would have to change from place to place. Also, w * (1 / std) rounds differently from (x - mean) / std.
 */
#pragma once

#include "layer/network.h"

/* Returns the channel of the image that channel `c` of the tensor is made of. */
GCONV_BOTH int32_t gconv_input_channel(const gconv_input *input, int32_t c) {
  return input->first + c * input->step;
}

/* Normalises one sample. */
GCONV_BOTH float gconv_normalize(float level, float white, float mean, float std) {
  return (level / white - mean) / std;
}

/* Normalises a row of one channel. Neighbouring pixels are `step` samples apart. */
#define GCONV_NORMALIZE_ROW(name, type)                                                                                     \
  static inline void name(const type *from, ptrdiff_t step, int32_t width, float white, float mean, float std, float *to) { \
    for (int32_t x = 0; x < width; x++)                                                                                     \
      to[x] = gconv_normalize((float)from[x * step], white, mean, std);                                                     \
  }

/* Combines `count` values that are `distance` apart. For argmax, the result is the number of the filter among `filters`. It
 * is NaN if a value is NaN or infinite, as no value is then the largest. */
GCONV_BOTH float gconv_combine_values(gconv_combine combine, const float *values, int32_t count, int64_t distance,
                                      int32_t filters) {
  float sum = gconv_combine_first(combine, values[0]), lost = values[0] * 0.0f; /* 0, or NaN */
  int32_t largest = 0;
  for (int32_t k = 1; k < count; k++) {
    float value = values[k * distance];
    if (combine == GCONV_COMBINE_ARGMAX)
      largest = value > sum ? k : largest;
    lost += value * 0.0f;
    sum = gconv_combine_next(combine, sum, value);
  }
  return combine == GCONV_COMBINE_ARGMAX ? (float)(largest % filters) + lost : gconv_combine_last(combine, sum);
}
