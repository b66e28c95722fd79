/* SPDX-License-Identifier: MIT */
/*
 * A JPEG whose pixels are known, to hold the decoder of a GPU to libjpeg: gradients under noise, of quality 75, with colours
 * of half as many columns and rows. A decoder that rounds otherwise anywhere gets some of its 18432 samples wrong.
 */
#ifndef GCONV_CONV_JPEG_KNOWN_H
#define GCONV_CONV_JPEG_KNOWN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GCONV_KNOWN_JPEG_WIDTH = 96, GCONV_KNOWN_JPEG_HEIGHT = 64, GCONV_KNOWN_JPEG_BYTES = 2401 };
#define GCONV_KNOWN_JPEG_HASH 0xb936a1a5e029b058ull /* of its pixels, interleaved RGB, by libjpeg */

extern const uint8_t gconv_known_jpeg[GCONV_KNOWN_JPEG_BYTES];

/* Of so many bytes of pixels. */
uint64_t gconv_known_jpeg_hash(const uint8_t *pixels, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
