/* SPDX-License-Identifier: MIT */
/* Layers that no algorithm solves, such as a mean: what they work on, and what makes them on a GPU. src/layer/kind.h has
 * their records, with what makes them on the CPU. */
#ifndef GCONV_KERNELS_LAYER_PLANES_H
#define GCONV_KERNELS_LAYER_PLANES_H

#include "base/both.h"
#include "kernels/layer_problem.h"

/* Tensors are float32, N x C x H x W, without gaps. */
typedef struct gconv_layer_planes {
  const gconv_layer_problem *problem; /* the shapes of x, channels, height and width, and of y, filters and so on */
  int64_t images;
  const float *x;
  const float *input;  /* of the network: the row where x begins; planes are ... */
  int64_t input_plane; /* ... so many floats apart */
  float *y;
} gconv_layer_planes;

/* Functions start kernels on a stream, a cudaStream_t, and return at once; cudaGetLastError() returns their failure. */
typedef struct gconv_layer_gpu {
  void (*forward)(const gconv_layer_planes *planes, void *stream);
  /* In training: dx, the gradient of x, from dz, that of y. NULL: it cannot be trained there. */
  void (*backward)(const gconv_layer_problem *problem, int64_t cases, const float *dz, float *dx, void *stream);
} gconv_layer_gpu;

GCONV_C_BEGIN
/* kernels/cuda/kinds/<name>.cu */
#define GCONV_LAYER_GPU_ROW(name, value) extern const gconv_layer_gpu gconv_layer_gpu_##name;
GCONV_EACH_LAYER_KIND(GCONV_LAYER_GPU_ROW)

/* Replaces what a layer yields by its softmax (kernels/cuda/kinds/softmax.cu). */
void gconv_layer_gpu_soften(const gconv_layer_problem *problem, int64_t images, float *tensor, void *stream);
GCONV_C_END

#endif
