/* SPDX-License-Identifier: MIT */
/* Softmax after a layer. */
#include "kernels/activation.h"
#include "kinds.cuh"

/* A thread computes the softmax over the filters at one place. */
__global__ static void make_softmax(float *tensor, int32_t filters, int64_t plane, int64_t places) {
  FOR_OWN (i, places)
    gconv_softmax(tensor + i / plane * filters * plane + i % plane, filters, plane);
}

void gconv_layer_gpu_soften(const gconv_layer_problem *p, int64_t images, float *tensor, void *stream) {
  const int64_t plane = (int64_t)p->out_height * p->out_width, places = images * plane;
  make_softmax<<<blocks_for(places), THREADS, 0, (cudaStream_t)stream>>>(tensor, p->filters, plane, places);
}
