/* SPDX-License-Identifier: MIT */
/* Samples of PNG that are looked up: of a palette, of fewer than 8 bits, and of grey with a transparent level. */
#ifndef GCONV_IMAGE_PNG_SAMPLES_H
#define GCONV_IMAGE_PNG_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gconv_png_samples {
  int depth;               /* bits of a sample in the file: 1, 2, 4 or 8 */
  int count;               /* of entries: at most 1 << depth */
  size_t channels;         /* 1 to 4 bytes that a sample becomes */
  uint8_t entries[256][4]; /* those bytes */
} gconv_png_samples;

/* The pixels of a row of `width` samples, to width * channels bytes. False if one has no entry. */
bool gconv_png_expand_row(const gconv_png_samples *samples, const uint8_t *row, size_t width, uint8_t *pixels);

#endif
