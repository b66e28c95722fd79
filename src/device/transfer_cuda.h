/* SPDX-License-Identifier: MIT */
/* Copies images between the host and a GPU, through pinned slabs. A thread copies a part of the image into a slab while the
 * GPU fetches the part before from another slab. For pageable memory, the driver would do the same, but in one thread, and
 * would block the calls of other threads. These transfers run in parallel. The bus takes 55 GB/s from pinned memory, a
 * thread copies 10 to 16 GB/s, and pinning takes 0.25 ms/MB. So several threads copy a large image, if the device has
 * several. Slabs are few and small, are pinned when they are first needed, and are shared by all plans of the device. */
#pragma once

#include "base/threads.h"

#include <cuda_runtime_api.h>

typedef struct gconv_slabs gconv_slabs;

/* Creates slabs for CUDA's device number `device`, the current one. Pins as many as a small image needs. */
gconv_status gconv_slabs_create(int device, gconv_slabs **slabs);
/* NULL is allowed. */
void gconv_slabs_free(gconv_slabs *slabs);

/* Bytes of a row of samples without gaps; and the number of rows of all planes. */
size_t gconv_dense_row_bytes(const gconv_image *image);
size_t gconv_all_rows(const gconv_image *image);

/* Enqueues a copy on the stream, between two images on the device. Their shapes are equal; the pitches of rows and planes
 * may differ. */
gconv_status gconv_copy_on_device(const gconv_image *from, const gconv_image *to, cudaStream_t stream);

/* Copies all pixels of `host` to `device`, an image of the same shape. Its rows may have padding, but its planes follow each
 * other without further gaps. When it returns, the host's pixels have been read; the stream does the rest. Thread-safe. */
gconv_status gconv_upload(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                          cudaStream_t stream);

/* Receives bytes in a slab. After it returns, the slab is reused. */
typedef void gconv_take_bytes(void *user, const uint8_t *bytes, size_t size);

/* Copies from the device in parts, and calls take() for each part while the next parts are copied. A part has as many units
 * of `unit` bytes as fit into a slab, at least one; if possible, a multiple of `step`. *waited_ms grows by the time that was
 * spent waiting for parts. */
gconv_status gconv_download_bytes(gconv_slabs *slabs, const void *device, size_t bytes, size_t unit, size_t step,
                                  gconv_take_bytes *take, void *user, cudaStream_t stream, double *waited_ms);

/* Copies an image back, after the work in the stream. All pixels are there when it returns. */
gconv_status gconv_download(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                            cudaStream_t stream);
