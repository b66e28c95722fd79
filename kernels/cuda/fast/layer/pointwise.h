/* SPDX-License-Identifier: MIT */
/* Several layers of filters of 1 x 1 in one kernel (pointwise.cu): results between layers never leave a multiprocessor. */
#pragma once

#include "kernels/layer_problem.h"

enum { GCONV_POINTWISE_LAYERS = 8 };

/* Addresses are of the device's memory. Sample i of channel c of image n is at in[n * in_image + c * in_plane + i]. */
typedef struct gconv_pointwise {
  const float *in;
  int64_t in_plane, in_image;
  const float *mean, *deviation; /* for each input channel: x = (x - mean) / deviation; NULL: samples are as they are */
  float *out;
  int64_t out_plane, out_image;
  int64_t pixels; /* pixels of a plane that are computed */
  int32_t images, count;
  bool softmax; /* over the outputs of a place */
  bool argmax;  /* `out` gets the number of the largest output of each place (the first of equal outputs), or NaN */
  const gconv_layer_problem *layers[GCONV_POINTWISE_LAYERS]; /* in memory of the host */
  const float *weights[GCONV_POINTWISE_LAYERS];              /* as layer_problem.h has them */
  const struct gconv_gpu_tail *tail;                         /* for a single layer; or NULL */
} gconv_pointwise;

#ifdef __cplusplus
extern "C" {
#endif

/* Returns NULL, or why the layers cannot be one kernel. */
const char *gconv_pointwise_obstacle(const gconv_layer_problem *const *layers, int32_t count);

/* Starts the kernel on the stream, a cudaStream_t. cudaGetLastError() returns its failure. */
void gconv_pointwise_execute(const gconv_pointwise *work, void *stream);

#ifdef __cplusplus
}
#endif
