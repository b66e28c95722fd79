/* SPDX-License-Identifier: MIT */
/* Adds the input of the network. */
#include "kinds.cuh"

__global__ static void add_input(const float *x, const float *input, int64_t input_plane, float *y, int64_t plane,
                                 int64_t count) {
  FOR_OWN (i, count)
    y[i] = x[i] + input[i / plane * input_plane + i % plane];
}

static void forward(const gconv_layer_planes *p, void *stream) {
  const int64_t plane = (int64_t)p->problem->height * p->problem->width, count = p->images * p->problem->channels * plane;
  add_input<<<blocks_for(count), THREADS, 0, (cudaStream_t)stream>>>(p->x, p->input, p->input_plane, p->y, plane, count);
}

static void backward(const gconv_layer_problem *p, int64_t cases, const float *dz, float *dx, void *stream) {
  const size_t floats = (size_t)cases * (size_t)p->channels * (size_t)p->height * (size_t)p->width;
  cudaMemcpyAsync(dx, dz, floats * sizeof *dx, cudaMemcpyDeviceToDevice, (cudaStream_t)stream);
}

const gconv_layer_gpu gconv_layer_gpu_residual = {forward, backward};
