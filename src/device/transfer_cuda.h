/* SPDX-License-Identifier: MIT */
/* Copies images between the host and a GPU, through pinned slabs. A thread copies a part of the image into a slab while the
 * GPU fetches the part before from another slab. The driver copies pageable memory in this way, too, but in one thread, and
 * it blocks the calls of other threads. These transfers run in parallel. The bus takes 55 GB/s from pinned memory, a thread
 * copies 10 to 16 GB/s, and pinning takes 0.25 ms/MB. So several threads of the device copy a large image. Slabs are few and
 * small, and are pinned when they are first needed. All plans of a device share them. */
#pragma once

#include "base/threads.h"

#include <cuda_runtime_api.h>

typedef struct gconv_slabs gconv_slabs;

/* Creates slabs for CUDA's device number `device`, which must be the current one. Pins the slabs that a small image
 * needs. */
gconv_status gconv_slabs_create(int device, gconv_slabs **slabs);
/* Frees the slabs. NULL is allowed. */
void gconv_slabs_free(gconv_slabs *slabs);

/* gconv_dense_row_bytes() returns the bytes of a row of samples without gaps, and gconv_all_rows() the number of rows of all
 * planes. */
size_t gconv_dense_row_bytes(const gconv_image *image);
size_t gconv_all_rows(const gconv_image *image);

/* Returns an image of this shape whose pixels are at `pixels`, without gaps. */
gconv_image gconv_dense_image(const gconv_image *shape, void *pixels);

/* Enqueues a copy on the stream, between two images on the device. Their shapes are equal. The pitches of their rows and
 * planes may differ. */
gconv_status gconv_copy_on_device(const gconv_image *from, const gconv_image *to, cudaStream_t stream);

/* Copies all pixels of `host` to `device`, an image of the same shape. Rows of `device` may have padding, but its planes
 * follow each other without further gaps. When it returns, the pixels of `host` have been read; the last copies may still be
 * in the stream. Thread-safe. */
gconv_status gconv_upload(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                          cudaStream_t stream);

/* Receives bytes in a slab. After it returns, the slab is reused. */
typedef void gconv_take_bytes(void *user, const uint8_t *bytes, size_t size);

/* Copies from the device in parts, and calls take() for each part while the next parts are copied. A part has as many units
 * of `unit` bytes as fit into a slab, at least one; if possible, a multiple of `step`. The time spent waiting for parts is
 * added to *waited_ms. */
gconv_status gconv_download_bytes(gconv_slabs *slabs, const void *device, size_t bytes, size_t unit, size_t step,
                                  gconv_take_bytes *take, void *user, cudaStream_t stream, double *waited_ms);

/* Copies an image from `device` to `host`, after the work in the stream. All pixels are in `host` when it returns. */
gconv_status gconv_download(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                            cudaStream_t stream);
