/* SPDX-License-Identifier: MIT */
/* The mean of each channel over height and width. */
#include "kernels/mean.h"
#include "kinds.cuh"

/* A block computes the mean of a plane. Each thread adds the samples of one lane (kernels/mean.h). */
__global__ static void make_means(const float *x, float *y, int64_t plane, int64_t planes) {
  __shared__ double lanes[GCONV_MEAN_LANES];
  for (int64_t n = blockIdx.x; n < planes; n += gridDim.x) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < plane; i += GCONV_MEAN_LANES)
      sum += (double)x[n * plane + i];
    lanes[threadIdx.x] = sum;
    __syncthreads();
    for (int half = GCONV_MEAN_LANES / 2; half > 0; half /= 2) {
      if ((int)threadIdx.x < half)
        lanes[threadIdx.x] += lanes[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0)
      y[n] = gconv_mean_of(lanes[0], plane);
    __syncthreads();
  }
}

__global__ static void spread_means(const float *dz, float *dx, int64_t plane, int64_t count) {
  FOR_OWN (i, count)
    dx[i] = dz[i / plane] / (float)plane;
}

static void forward(const gconv_layer_planes *p, void *stream) {
  const int64_t plane = (int64_t)p->problem->height * p->problem->width, planes = p->images * p->problem->channels;
  make_means<<<(unsigned)(planes < MOST_BLOCKS ? planes : (int64_t)MOST_BLOCKS), GCONV_MEAN_LANES, 0,
               (cudaStream_t)stream>>>(p->x, p->y, plane, planes);
}

static void backward(const gconv_layer_problem *p, int64_t cases, const float *dz, float *dx, void *stream) {
  const int64_t plane = (int64_t)p->height * p->width, count = cases * p->channels * plane;
  spread_means<<<blocks_for(count), THREADS, 0, (cudaStream_t)stream>>>(dz, dx, plane, count);
}

const gconv_layer_gpu gconv_layer_gpu_mean = {forward, backward};
