/* SPDX-License-Identifier: MIT */
/* A result on its way from a GPU to who takes it (gconv_taker): as rows, or as the PNG that the GPU makes of them. */
#ifndef GCONV_CONV_SEND_CUDA_H
#define GCONV_CONV_SEND_CUDA_H

#include "device/transfer_cuda.h"
#include "image/gpu_codec.h"

/* A way to a taker. */
typedef struct gconv_way {
  gconv_slabs *slabs;
  const gconv_taker *taker;
  size_t output;
  int32_t step; /* rows that the taker wants at a time */
  cudaStream_t stream;
  double *waited_ms; /* grows by the time in which the taker had nothing */
} gconv_way;

/* Rows of an interleaved image, each of which fits a slab, with the gaps that they have on the device. */
gconv_status gconv_send_rows(const gconv_way *way, const gconv_image *device);

/* The strips that a codec has made of the image, with rows in place of those that it left; the stream has come to its end.
 */
gconv_status gconv_send_png(const gconv_way *way, const gconv_gpu_png *png, const gconv_image *device);

#endif
