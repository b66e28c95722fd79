/* SPDX-License-Identifier: MIT */
/*
 * JPEG files decoded by a GPU: nvJPEG, which is loaded when it is first wanted, undoes the coding and the cosine transform,
 * on the engines that are made for that where the GPU has some (an A100 or H100 has); a kernel of ours makes pixels of the
 * planes, as libjpeg-turbo does. Those engines round the transform as libjpeg does by default, so that the pixels are
 * the same, bit for bit.
 *
 * One engine takes 2 ms for a megabyte of a file, and one call at a time is served, but as many files of a call side by side
 * as there are engines. So what several threads want meanwhile goes into the next call, which one of them makes for all.
 */
#ifndef GCONV_CODEC_CUDA_JPEG_H
#define GCONV_CODEC_CUDA_JPEG_H

#include "image/gpu_codec.h"

/* The functions of gconv_gpu_codec. */
const char *gconv_jpeg_obstacle(void);
gconv_status gconv_jpeg_start(int index, gconv_gpu_decoder **decoder);
int gconv_jpeg_backlog(gconv_gpu_decoder *decoder);
gconv_status gconv_jpeg_decode(gconv_gpu_decoder *decoder, gconv_gpu_memory *room, const void *jpeg, size_t size,
                               const gconv_image *image, void *stream);

#endif
