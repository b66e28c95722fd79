/* SPDX-License-Identifier: MIT */
/* What a network does on a GPU besides its convolutions: pixels become a tensor; padding and softmax; outputs are
 * combined. Memory bounds all of it. */
#pragma once

#include "kernels/activation.h"
#include "layer/border.h"
#include "layer/input.h"

#include <cuda_runtime.h>

enum { THREADS = 256, MOST_BLOCKS = 1 << 20 };

static unsigned blocks_for(int64_t count) {
  int64_t blocks = (count - 1) / THREADS + 1;
  return (unsigned)(blocks < MOST_BLOCKS ? blocks : (int64_t)MOST_BLOCKS);
}

/* The pixels of an image without gaps, and what they become: C planes of each of N images. Sample i of a plane of the tensor
 * is pixel i + first of the image; 0 where there is none. */
struct conversion {
  int64_t plane, pixels, first; /* of the tensor; of the image */
  int32_t channels, file_channels;
  bool planar;
  float white;
  float mean, std;
};

/* One channel: blockIdx.y is the image. */
template <class Sample>
__global__ static void normalize(conversion c, int32_t channel, const Sample *from, float *to, int32_t images) {
  for (int32_t n = (int32_t)blockIdx.y; n < images; n += (int32_t)gridDim.y) {
    const Sample *in = from + (int64_t)n * c.file_channels * c.pixels + (c.planar ? channel * c.pixels : channel);
    float *out = to + ((int64_t)n * c.channels + channel) * c.plane;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < c.plane; i += (int64_t)gridDim.x * THREADS) {
      int64_t pixel = i + c.first;
      bool there = pixel >= 0 && pixel < c.pixels;
      out[i] = there ? gconv_normalize((float)in[c.planar ? pixel : pixel * c.file_channels], c.white, c.mean, c.std) : 0;
    }
  }
}

__global__ static void combine(gconv_combine how, const float *in, float *out, int64_t plane, int64_t count,
                               int32_t combined, int32_t filters) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (int64_t)gridDim.x * THREADS)
    out[i] = gconv_combine_values(how, in + i / plane * combined * plane + i % plane, combined, plane, filters);
}

/* A thread makes a pixel of a padded tensor. */
__global__ static void pad_input(gconv_padding_job how, const float *in, float *out, int64_t planes) {
  const int64_t plane = (int64_t)how.rows * how.columns, count = planes * plane;
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += (int64_t)gridDim.x * THREADS) {
    const int64_t y = gconv_padding_row(&how, i % plane / how.columns), x = gconv_padding_column(&how, i % how.columns);
    const bool inside = y != GCONV_OUTSIDE && x != GCONV_OUTSIDE;
    out[i] = inside ? in[(i / plane * how.in_rows + y) * how.width + x] : how.outside;
  }
}

/* A thread makes all filters of a place. */
__global__ static void make_softmax(float *tensor, int32_t filters, int64_t plane, int64_t places) {
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < places; i += (int64_t)gridDim.x * THREADS)
    gconv_softmax(tensor + i / plane * filters * plane + i % plane, filters, plane);
}

/* Keeps the GPU busy for some 0.1 ms, so that the time of the host to enqueue the next steps is not measured. */
__global__ static void be_busy() {
  for (const int64_t begin = clock64(); clock64() - begin < 200000;)
    ;
}
