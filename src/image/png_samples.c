/* SPDX-License-Identifier: MIT */
#include "image/png_samples.h"
#include "base/cpu.h"

#include <string.h>

GCONV_INLINE int sample_at(const uint8_t *row, size_t x, int depth) {
  const size_t per_byte = 8 / (size_t)depth;
  int shift = 8 - depth - depth * (int)(x % per_byte);
  return row[x / per_byte] >> shift & ((1 << depth) - 1);
}

/* Returns the largest sample. A pixel is written as four bytes, of which the next ones overwrite what is too much: the last
 * few by themselves. */
GCONV_INLINE int look_up(const gconv_png_samples *samples, const uint8_t *row, size_t width, size_t channels, int depth,
                         uint8_t *pixels) {
  int most = 0;
  size_t x = 0;
  for (; x + 4 <= width; x++) {
    int sample = sample_at(row, x, depth);
    most = sample > most ? sample : most;
    memcpy(pixels + x * channels, samples->entries[sample], 4);
  }
  for (; x < width; x++) {
    int sample = sample_at(row, x, depth);
    most = sample > most ? sample : most;
    memcpy(pixels + x * channels, samples->entries[sample], channels);
  }
  return most;
}

/* With constants for what the inner loop turns on. */
GCONV_INLINE int look_up_depth(const gconv_png_samples *samples, const uint8_t *row, size_t width, size_t channels,
                               uint8_t *pixels) {
  switch (samples->depth) {
  case 1:
    return look_up(samples, row, width, channels, 1, pixels);
  case 2:
    return look_up(samples, row, width, channels, 2, pixels);
  case 4:
    return look_up(samples, row, width, channels, 4, pixels);
  default:
    return look_up(samples, row, width, channels, 8, pixels);
  }
}

bool gconv_png_expand_row(const gconv_png_samples *samples, const uint8_t *row, size_t width, uint8_t *pixels) {
  int most = samples->channels == 1   ? look_up_depth(samples, row, width, 1, pixels)
             : samples->channels == 2 ? look_up_depth(samples, row, width, 2, pixels)
             : samples->channels == 3 ? look_up_depth(samples, row, width, 3, pixels)
                                      : look_up_depth(samples, row, width, 4, pixels);
  return most < samples->count;
}
