/* SPDX-License-Identifier: MIT */
/*
 * A JPEG with known pixels, to compare the decoder of a GPU with libjpeg. It has gradients under noise, quality 75, and
 * chroma at half the columns and rows (4:2:0). A decoder that rounds in another way gets some of its 18432 samples wrong.
 */
#pragma once

#include "base/both.h"

#include <stdint.h>

GCONV_C_BEGIN

enum { GCONV_KNOWN_JPEG_WIDTH = 96, GCONV_KNOWN_JPEG_HEIGHT = 64, GCONV_KNOWN_JPEG_BYTES = 2401 };
#define GCONV_KNOWN_JPEG_CRC 0x527d6f3du /* gconv_crc32() of its pixels, interleaved RGB, by libjpeg */

extern const uint8_t gconv_known_jpeg[GCONV_KNOWN_JPEG_BYTES + 1]; /* written as a string, which ends with a 0 */

GCONV_C_END
