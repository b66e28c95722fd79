/* SPDX-License-Identifier: MIT */
/* Slabs in memory of a GPU. */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "device/transfer_cuda.h"
#include "image/layout.h"
#include "volume/slab.h"

#include <cuda_runtime.h>

static const cudaStream_t STREAM = cudaStreamPerThread;
enum { THREADS = 256 };

static gconv_status allocate(gconv_device *device, gconv_image *image) {
  gconv_cuda_guest guest(device->index);
  image->row_bytes = gconv_image_row_bytes(image);
  image->plane_bytes = image->row_bytes * (size_t)image->height;
  return gconv_cuda_allocate(device, image->plane_bytes * (size_t)image->frames, "planes of a volume", &image->data);
}

static void release(gconv_device *device, gconv_image *image) {
  gconv_cuda_guest guest(device->index);
  cudaFree(image->data);
  image->data = NULL;
}

static gconv_status upload(gconv_device *device, const gconv_image *host, const gconv_image *there) {
  gconv_cuda_guest guest(device->index);
  GCONV_TRY(gconv_upload((gconv_slabs *)device->state, device->threads, there, host, STREAM));
  return CUDA_STATUS(cudaStreamSynchronize(STREAM));
}

static gconv_status download(gconv_device *device, const gconv_image *there, const gconv_image *host) {
  gconv_cuda_guest guest(device->index);
  return gconv_download((gconv_slabs *)device->state, device->threads, there, host, STREAM);
}

/* If planes overlap, copies them one by one: in a stream, copies follow each other. */
static gconv_status move(gconv_device *device, const gconv_image *from, const gconv_image *to) {
  gconv_cuda_guest guest(device->index);
  const bool overlap = (uint8_t *)from->data < (uint8_t *)to->data + to->plane_bytes * (size_t)to->frames;
  for (int32_t z = 0; z < to->frames; z += overlap ? 1 : to->frames) {
    const gconv_image one = gconv_frames_of(from, z, overlap ? 1 : from->frames),
                      other = gconv_frames_of(to, z, overlap ? 1 : to->frames);
    GCONV_TRY(gconv_copy_on_device(&one, &other, STREAM));
  }
  return GCONV_OK;
}

static __global__ void fill_samples(float *to, float value, size_t count) {
  for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS)
    to[i] = value;
}

static __global__ void add_samples(const float *from, float *to, float factor, bool adds, size_t count) {
  for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS)
    to[i] = fmaf(factor, from[i], adds ? to[i] : 0.0F);
}

static __global__ void finish_samples(gconv_slab_finish how, gconv_image out, size_t samples, size_t count) {
  const float *sums = (const float *)how.sums.data;
  for (size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x; i < count; i += (size_t)gridDim.x * THREADS) {
    const size_t row = i / samples, height = (size_t)out.height;
    if (how.to_squares)
      how.to_squares[i] = gconv_slab_square(sums[i], how.squares, i);
    else
      gconv_slab_store(&how, out.type, sums[i], i,
                       (uint8_t *)out.data + row / height * out.plane_bytes + row % height * out.row_bytes, i % samples);
  }
}

static size_t samples_of(const gconv_image *image) {
  return (size_t)image->frames * (size_t)image->height * (size_t)image->width * (size_t)image->channels;
}

static int blocks_for(size_t count) {
  const size_t blocks = (count + THREADS - 1) / THREADS, most = 1 << 14;
  return (int)(blocks < most ? blocks : most);
}

static gconv_status fill(gconv_device *device, const gconv_image *to, float value) {
  gconv_cuda_guest guest(device->index);
  fill_samples<<<blocks_for(samples_of(to)), THREADS, 0, STREAM>>>((float *)to->data, value, samples_of(to));
  return CUDA_STATUS(cudaGetLastError());
}

static gconv_status add(gconv_device *device, const gconv_image *from, const gconv_image *to, float factor, bool adds) {
  gconv_cuda_guest guest(device->index);
  add_samples<<<blocks_for(samples_of(to)), THREADS, 0, STREAM>>>((const float *)from->data, (float *)to->data, factor, adds,
                                                                  samples_of(to));
  return CUDA_STATUS(cudaGetLastError());
}

static gconv_status finish(gconv_device *device, const gconv_slab_finish *how, const gconv_image *out) {
  gconv_cuda_guest guest(device->index);
  finish_samples<<<blocks_for(samples_of(out)), THREADS, 0, STREAM>>>(*how, *out, (size_t)out->width * (size_t)out->channels,
                                                                      samples_of(out));
  return CUDA_STATUS(cudaGetLastError());
}

extern "C" const gconv_slab_type gconv_slab_type_cuda = {true,     STREAM, allocate, release, upload,
                                                         download, move,   fill,     add,     finish};
