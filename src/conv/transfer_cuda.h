/* SPDX-License-Identifier: MIT */
/*
 * Images between the host and a GPU, by way of pinned slabs: a thread copies a part of the image into a slab while the GPU
 * fetches the part before from another. A transfer of pageable memory, which the driver would make of it, does the same, but
 * in one thread, and holds up other threads' calls; these run side by side. The bus takes 55 GB/s from pinned memory, a
 * thread copies 10 to 16 GB/s, and pinning takes 0.25 ms/MB: so several threads copy a large image, where the device has
 * several, and slabs are few and small, pinned when they are first needed, and used by all plans of the device in turn.
 */
#ifndef GCONV_CONV_TRANSFER_CUDA_H
#define GCONV_CONV_TRANSFER_CUDA_H

#include "base/threads.h"

#include <cuda_runtime_api.h>

typedef struct gconv_slabs gconv_slabs;

/* For CUDA's device number `device`, which is current. Pins what a small image needs. */
gconv_status gconv_slabs_create(int device, gconv_slabs **slabs);
/* NULL is allowed. */
void gconv_slabs_free(gconv_slabs *slabs);

/* Samples of a row without gaps, in bytes; and the rows of all planes. */
size_t gconv_dense_row_bytes(const gconv_image *image);
size_t gconv_all_rows(const gconv_image *image);

/* Copies all pixels of `host` to `device`, an image of the same shape whose rows, and whose planes, follow each other
 * without gaps but for those at the ends of rows. Thread-safe. The host's pixels have been read when it returns; the rest is
 * left to the stream. */
gconv_status gconv_upload(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                          cudaStream_t stream);

/* Gets bytes in a slab, which is another's when it returns. */
typedef void gconv_take_bytes(void *user, const uint8_t *bytes, size_t size);

/* The way back in parts, of which take() works on one while the next are on their way: of as many units of `unit` bytes as
 * fit a slab, which one does, or of a multiple of `step` units, if as many fit. *waited_ms grows by the time in which there
 * was nothing to take. */
gconv_status gconv_download_bytes(gconv_slabs *slabs, const void *device, size_t bytes, size_t unit, size_t step,
                                  gconv_take_bytes *take, void *user, cudaStream_t stream, double *waited_ms);

/* The way back, after what is in the stream; all is there when it returns. */
gconv_status gconv_download(gconv_slabs *slabs, gconv_threads *threads, const gconv_image *device, const gconv_image *host,
                            cudaStream_t stream);

#endif
