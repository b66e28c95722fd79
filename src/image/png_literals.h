/* SPDX-License-Identifier: MIT */
/* Literals put 64 at a time, where the processor looks up as many bytes at once. The bits are those of put_packed(). */
#ifndef GCONV_IMAGE_PNG_LITERALS_H
#define GCONV_IMAGE_PNG_LITERALS_H

#include "image/png_bits.h"

#include <stddef.h>

/* The codes of the 256 literals, at most 14 bits each, by the bytes. */
typedef struct gconv_png_literals {
  _Alignas(64) uint8_t low[256];
  uint8_t high[256], count[256];
} gconv_png_literals;

/* Puts the first of `count` literals, and returns how many: a multiple of 64; 0 where the processor is another. */
size_t gconv_png_put_literals(const gconv_png_literals *codes, const uint8_t *bytes, size_t count, bit_writer *writer);

#endif
