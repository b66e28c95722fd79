/* SPDX-License-Identifier: MIT */
/* The functions of gconv_gpu_codec in this room. */
#pragma once

#include "image/gpu_codec.h"

/* In jpeg.cu. */
const char *gconv_jpeg_obstacle(void);
gconv_status gconv_jpeg_start(int index, gconv_gpu_decoder **decoder);
int gconv_jpeg_backlog(gconv_gpu_decoder *decoder);
gconv_status gconv_jpeg_decode(gconv_gpu_decoder *decoder, gconv_gpu_memory *room, const void *jpeg, size_t size,
                               const gconv_image *image, void *stream);

/* In png.cu, which encodes interleaved u8 or u16 of 1 to 4 channels whose rows have up to half a megabyte. The first encoder
 * for a device takes at least 1 MB: it encodes a small picture (png_check.h) first, while other threads wait. */
size_t gconv_png_bytes(const gconv_image *image);
gconv_status gconv_png_create(const gconv_image *shape, gconv_gpu_png **png);
void gconv_png_free(gconv_gpu_png *png);
gconv_status gconv_png_encode(gconv_gpu_png *png, const gconv_image *image, void *stream);
