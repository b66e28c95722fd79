/* SPDX-License-Identifier: MIT */
/* What a network does on a GPU besides its convolutions: pixels become a tensor; padding; outputs are
 * combined. Memory bounds all of it. */
#pragma once

#include "kernels/cuda/kinds/kinds.cuh"
#include "layer/border.h"
#include "layer/input.h"

#include <cuda_runtime.h>

/* The pixels of an image without gaps, and the tensor that they become: C planes of each of N images. Sample i of a plane of
 * the tensor is pixel i + first of the image; 0 if there is no such pixel. */
struct conversion {
  int64_t plane, pixels, first; /* plane: samples of a plane of the tensor; pixels: of an image */
  int32_t channels, file_channels;
  bool planar;
  float white;
  float mean, std;
};

/* Normalises one channel, which is made of channel `of` of the image. blockIdx.y is the image. */
template <class Sample>
__global__ static void normalize(conversion c, int32_t channel, int32_t of, const Sample *from, float *to, int32_t images) {
  for (int32_t n = (int32_t)blockIdx.y; n < images; n += (int32_t)gridDim.y) {
    const Sample *in = from + (int64_t)n * c.file_channels * c.pixels + (c.planar ? of * c.pixels : of);
    float *out = to + ((int64_t)n * c.channels + channel) * c.plane;
    FOR_OWN (i, c.plane) {
      int64_t pixel = i + c.first;
      bool there = pixel >= 0 && pixel < c.pixels;
      out[i] = there ? gconv_normalize((float)in[c.planar ? pixel : pixel * c.file_channels], c.white, c.mean, c.std) : 0;
    }
  }
}

__global__ static void combine(gconv_combine how, const float *in, float *out, int64_t plane, int64_t count,
                               int32_t combined, int32_t filters) {
  FOR_OWN (i, count)
    out[i] = gconv_combine_values(how, in + i / plane * combined * plane + i % plane, combined, plane, filters);
}

/* A thread makes a pixel of a padded tensor. */
__global__ static void pad_input(gconv_padding_job how, const float *in, float *out, int64_t planes) {
  const int64_t plane = (int64_t)how.rows * how.columns, count = planes * plane;
  FOR_OWN (i, count) {
    const int64_t y = gconv_padding_row(&how, i % plane / how.columns), x = gconv_padding_column(&how, i % how.columns);
    const bool inside = y != GCONV_OUTSIDE && x != GCONV_OUTSIDE;
    out[i] = inside ? in[(i / plane * how.in_rows + y) * how.width + x] : how.outside;
  }
}
