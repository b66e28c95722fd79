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
#ifndef GCONV_CONV_JPEG_CUDA_H
#define GCONV_CONV_JPEG_CUDA_H

#include "gconv.h"

#include <cuda_runtime_api.h>

typedef struct gconv_jpeg_decoder gconv_jpeg_decoder;

/* That of CUDA's device number `device`, which is current. The first call starts it, in 0.4 s; it belongs to the process, as
 * the context does, as to end it takes half as long. GCONV_UNSUPPORTED, GCONV_NO_MEMORY. */
gconv_status gconv_jpeg_decoder_of(int device, gconv_jpeg_decoder **decoder);

/* gconv_device_decoder_backlog(). */
int gconv_jpeg_backlog(gconv_jpeg_decoder *decoder);

/* Room on the device for the planes of one image at a time: zero-initialise, cudaFree(memory) at the end. */
typedef struct gconv_jpeg_planes {
  void *memory;
  size_t bytes;
} gconv_jpeg_planes;

/* Decodes the file into `image`, on the device: interleaved RGB of u8 whose rows begin at multiples of 16 bytes. Its planes
 * are there when it returns, the pixels once the stream has come to it. Thread-safe, with planes of the caller's own.
 * GCONV_BAD_FILE where nvJPEG refuses the file, or it is not of the size of the image; GCONV_UNSUPPORTED for a kind of JPEG
 * that gconv_row_reader_jpeg() does not yield. */
gconv_status gconv_jpeg_decode(gconv_jpeg_decoder *decoder, gconv_jpeg_planes *planes, const void *jpeg, size_t size,
                               const gconv_image *image, cudaStream_t stream);

#endif
