/* SPDX-License-Identifier: MIT */
/*
 * PNG made by a GPU: the same bytes that src/image/png_encode.c makes at level 1.
 *
 * Filtered photos are strips without matches nearly always: row filters, histograms, prefix codes and bits packed side
 * by side, all of which a GPU does in a fraction of a millisecond, while a processor takes 40 for 4K. Matches are
 * looked for in the samples of the strips, as decisions depend on them, but not in the strips: those that have some are left
 * to the host.
 */
#ifndef GCONV_CODEC_CUDA_PNG_H
#define GCONV_CODEC_CUDA_PNG_H

#include "image/gpu_codec.h"

/* The functions of gconv_gpu_codec. It encodes interleaved u8 or u16 of 1 to 4 channels whose rows have up to half a
 * megabyte. The first encoder for a device takes at least 1 MB: it makes a small picture (png_check.h) while others wait. */
size_t gconv_png_bytes(const gconv_image *image);
gconv_status gconv_png_create(const gconv_image *shape, gconv_gpu_png **png);
void gconv_png_free(gconv_gpu_png *png);
gconv_status gconv_png_encode(gconv_gpu_png *png, const gconv_image *image, void *stream);

#endif
