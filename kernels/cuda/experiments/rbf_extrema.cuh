/* SPDX-License-Identifier: MIT */
/* The kernels of rbf.cu that look for extrema, and the one that only reads. */
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

namespace {

enum { THREADS = 256 };

/* ---- Extrema ---- */

/* The smallest and the largest number so far. Of equal numbers, the first counts. */
struct extrema {
  float smallest, largest;
  uint32_t at_smallest, at_largest;
};

template <bool MIN, bool MAX>
__device__ void take(extrema &e, float small, uint32_t at_small, float large, uint32_t at_large) {
  if (MIN && (small < e.smallest || (small == e.smallest && at_small < e.at_smallest))) {
    e.smallest = small;
    e.at_smallest = at_small;
  }
  if (MAX && (large > e.largest || (large == e.largest && at_large < e.at_largest))) {
    e.largest = large;
    e.at_largest = at_large;
  }
}

/* Finds the extrema of a block; its first thread gets them. */
template <bool MIN, bool MAX> __device__ void reduce(extrema &e) {
  __shared__ extrema all[THREADS];
  all[threadIdx.x] = e;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half) {
      const extrema other = all[threadIdx.x + half];
      take<MIN, MAX>(e, other.smallest, other.at_smallest, other.largest, other.at_largest);
      all[threadIdx.x] = e;
    }
  }
}

/* Stores the extrema of each block. Threads take four numbers at a time. */
template <bool MIN, bool MAX>
__global__ void __launch_bounds__(THREADS) find_parts(const float4 *g, size_t fours, float *values, uint32_t *places) {
  extrema e = {INFINITY, -INFINITY, UINT32_MAX, UINT32_MAX};
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < fours; i += (size_t)gridDim.x * THREADS) {
    const float4 four = g[i];
    const float own[] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      take<MIN, MAX>(e, own[k], (uint32_t)(4 * i) + k, own[k], (uint32_t)(4 * i) + k);
  }
  reduce<MIN, MAX>(e);
  if (threadIdx.x == 0) {
    values[2 * blockIdx.x] = e.smallest;
    values[2 * blockIdx.x + 1] = e.largest;
    places[2 * blockIdx.x] = e.at_smallest;
    places[2 * blockIdx.x + 1] = e.at_largest;
  }
}

template <bool MIN, bool MAX>
__global__ void __launch_bounds__(THREADS)
    find_whole(const float *values, const uint32_t *places, uint32_t parts, uint32_t *where) {
  extrema e = {INFINITY, -INFINITY, UINT32_MAX, UINT32_MAX};
  for (uint32_t i = threadIdx.x; i < parts; i += THREADS)
    take<MIN, MAX>(e, values[2 * i], places[2 * i], values[2 * i + 1], places[2 * i + 1]);
  reduce<MIN, MAX>(e);
  if (threadIdx.x == 0) {
    where[0] = e.at_smallest;
    where[1] = e.at_largest;
  }
}

/* Plain extrema: the values alone, without their places. */
template <bool MIN> __device__ float better(float a, float b) {
  return MIN ? fminf(a, b) : fmaxf(a, b);
}

template <bool MIN> __global__ void __launch_bounds__(THREADS) find_values(const float4 *g, size_t fours, float *values) {
  __shared__ float all[THREADS];
  float best = MIN ? INFINITY : -INFINITY;
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < fours; i += (size_t)gridDim.x * THREADS)
    best = better<MIN>(best, better<MIN>(better<MIN>(g[i].x, g[i].y), better<MIN>(g[i].z, g[i].w)));
  all[threadIdx.x] = best;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half)
      all[threadIdx.x] = better<MIN>(all[threadIdx.x], all[threadIdx.x + half]);
  }
  if (threadIdx.x == 0)
    values[blockIdx.x] = all[0];
}

/* ---- The bound ---- */

/* A sum is never negative, so nothing is written. The compiler does not know that, and leaves out no load. */
__global__ void __launch_bounds__(THREADS) read_all(const float4 *x, size_t fours, float *out) {
  float sum = 0;
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < fours; i += (size_t)gridDim.x * THREADS) {
    const float4 four = x[i];
    sum += four.x * four.x + four.y * four.y + four.z * four.z + four.w * four.w;
  }
  if (sum < 0)
    out[0] = sum;
}

} // namespace
