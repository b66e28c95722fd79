/* SPDX-License-Identifier: MIT */
/* Layers that no algorithm solves, such as a mean: their arguments, and the functions that compute them on a GPU.
 * src/layer/kind.h has their records, and the functions for the CPU. */
#ifndef GCONV_KERNELS_LAYER_PLANES_H
#define GCONV_KERNELS_LAYER_PLANES_H

#include "base/both.h"
#include "kernels/layer_problem.h"

/* Tensors are float32, N x C x H x W, without gaps. */
typedef struct gconv_layer_planes {
  const gconv_layer_problem *problem; /* the shapes of x (channels, height, width) and y (filters, out_height, out_width) */
  int64_t images;
  const float *x;
  const float *input;  /* the network's input, from the row on at which x begins */
  int64_t input_plane; /* floats from a plane of `input` to the next */
  float *y;
} gconv_layer_planes;

/* Both functions start kernels on `stream`, a cudaStream_t, and return at once. cudaGetLastError() returns failures. */
typedef struct gconv_layer_gpu {
  void (*forward)(const gconv_layer_planes *planes, void *stream);
  /* In training: computes dx, the gradient of x, from dz, the gradient of y. NULL: the layer cannot be trained on a GPU. */
  void (*backward)(const gconv_layer_problem *problem, int64_t cases, const float *dz, float *dx, void *stream);
} gconv_layer_gpu;

GCONV_C_BEGIN
/* kernels/cuda/kinds/<name>.cu */
#define GCONV_LAYER_GPU_ROW(name, value) extern const gconv_layer_gpu gconv_layer_gpu_##name;
GCONV_EACH_LAYER_KIND(GCONV_LAYER_GPU_ROW)

/* Replaces the output of a layer by its softmax (kernels/cuda/kinds/softmax.cu). */
void gconv_layer_gpu_soften(const gconv_layer_problem *problem, int64_t images, float *tensor, void *stream);
GCONV_C_END

#endif
