/* SPDX-License-Identifier: MIT */
/* Sends a result from a GPU to a gconv_taker: as rows, or as a PNG that the GPU has made. */
#pragma once

#include "device/transfer_cuda.h"
#include "image/gpu_codec.h"

/* The data for sending a result to a taker. */
typedef struct gconv_way {
  gconv_slabs *slabs;
  const gconv_taker *taker;
  size_t output;
  int32_t step; /* the number of rows that the taker gets at a time */
  cudaStream_t stream;
  double *waited_ms; /* the time in which the taker waited is added here */
} gconv_way;

/* Sends all rows of an interleaved image, with the gaps that they have on the device. A row must fit into a slab. */
gconv_status gconv_send_rows(const gconv_way *way, const gconv_image *device);

/* Sends the strips of a PNG that a codec has made. Sends rows in place of strips that the codec could not make. All work in
 * the stream must be complete. */
gconv_status gconv_send_png(const gconv_way *way, const gconv_gpu_png *png, const gconv_image *device);
