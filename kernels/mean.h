/* SPDX-License-Identifier: MIT */
/*
 * The mean of a plane. The order of additions does not depend on threads or the device. Sample i is added to lane i %
 * GCONV_MEAN_LANES, in the order of i and in float64. Then the upper half of the lanes is added to the lower half, lane by
 * lane, until one lane is left. Its sum is divided by the number of samples and rounded to float32.
 */
#pragma once

#include "base/both.h"
#include "base/cpu.h"

#include <stdint.h>

enum { GCONV_MEAN_LANES = 256 };

/* Returns the mean of `count` samples from their sum. */
GCONV_BOTH float gconv_mean_of(double sum, int64_t count) {
  return (float)(sum / (double)count);
}

/* Returns the mean of `count` samples, by one thread. It leaves out lanes that no sample reaches: they are +0, and adding +0
 * to a sum that began with +0 changes no bit. */
static inline float gconv_mean(const float *samples, int64_t count) {
  double lanes[GCONV_MEAN_LANES];
  int64_t i = 0;
  int used = GCONV_MEAN_LANES;
  while (used > 1 && used / 2 >= count)
    used /= 2;
  for (int lane = 0; lane < used; lane++)
    lanes[lane] = 0;
  for (; i + GCONV_MEAN_LANES <= count; i += GCONV_MEAN_LANES)
    for (int lane = 0; lane < GCONV_MEAN_LANES; lane++)
      lanes[lane] += (double)samples[i + lane];
  for (int lane = 0; i + lane < count; lane++)
    lanes[lane] += (double)samples[i + lane];
  for (int half = used / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; lane++)
      lanes[lane] += lanes[lane + half];
  return gconv_mean_of(lanes[0], count);
}

/* Does the same for GCONV_MEAN_CHANNELS neighbouring channels of a tensor whose pixels are `step` floats apart. If each lane
 * has at most one sample, the first addition of lanes adds the samples themselves. */
enum { GCONV_MEAN_CHANNELS = 8 };
GCONV_INLINE void gconv_mean_of_channels(const float *samples, int64_t count, int64_t step, float *means) {
  double lanes[GCONV_MEAN_LANES][GCONV_MEAN_CHANNELS];
  int used = GCONV_MEAN_LANES;
  while (used > 1 && used / 2 >= count)
    used /= 2;
  if (count <= GCONV_MEAN_LANES && count > 1)
    used /= 2;
  for (int lane = 0; lane < used; lane++)
    for (int c = 0; c < GCONV_MEAN_CHANNELS; c++)
      lanes[lane][c] = 0.0 + (double)samples[lane * step + c];
  for (int64_t first = used; first < count; first += used)
    for (int64_t i = first; i < count && i < first + used; i++)
      for (int c = 0; c < GCONV_MEAN_CHANNELS; c++)
        lanes[i - first][c] += (double)samples[i * step + c];
  for (int half = used / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; lane++)
      for (int c = 0; c < GCONV_MEAN_CHANNELS; c++)
        lanes[lane][c] += lanes[lane + half][c];
  for (int c = 0; c < GCONV_MEAN_CHANNELS; c++)
    means[c] = gconv_mean_of(lanes[0][c], count);
}
