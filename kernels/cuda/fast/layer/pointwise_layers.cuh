/* SPDX-License-Identifier: MIT */
/* What the kernels of pointwise.cu share: layers as kernels see them. */
#pragma once

#include "kernels/activation.h"
#include "kernels/layer_algorithm.h"
#include "pointwise.h"

#include "../../core/launch.cuh"
#include "../../graph/tail.cuh"

extern __shared__ float4 gconv_pointwise_memory[];

namespace {

struct layer {
  int32_t channels, filters, padded; /* padded: filters, rounded up to a multiple of 8 */
  int32_t weights;                   /* floats of shared memory before the weights; biases follow */
  gconv_activation activation;
  float slope;
  const float *from; /* weights, then biases */
};

struct arguments_of_layers {
  const float *in, *mean, *deviation;
  float *out;
  int64_t in_plane, in_image, out_plane, out_image, pixels, tiles; /* tiles: of an image */
  int32_t images, count;
  bool softmax, argmax;
  gconv_gpu_tail tail;
  int32_t buffers[2]; /* floats of shared memory before each buffer */
  layer layers[GCONV_POINTWISE_LAYERS];
};

DEVICE float activate(const layer &l, float v) {
  gconv_layer_problem problem;
  problem.activation = l.activation;
  problem.slope = l.slope;
  return gconv_activate(&problem, v);
}

} // namespace
