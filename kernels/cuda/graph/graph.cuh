/* SPDX-License-Identifier: MIT */
/* Helpers of the kernels of nodes. */
#pragma once

#include "device/cuda_error.h"
#include "kernels/cuda/core/behind.cuh"
#include "kernels/cuda/graph/graph.h"
#include "kernels/cuda/kinds/kinds.cuh"

/* Launches a kernel that begins with follow_kernel_before(), with THREADS threads a block. */
template <class... TAKEN, class... GIVEN>
static gconv_status start(void (*kernel)(TAKEN...), dim3 grid, void *stream, const GIVEN &...given) {
  return CUDA_STATUS(launch_behind(kernel, grid, THREADS, 0, (cudaStream_t)stream, given...));
}

/* Indices are 32 bits wide where the elements allow it: divisions of 64 bits take several times as long. */
enum : int64_t { MOST_SHORT = INT32_MAX };

/* Returns the number of blocks for `count` pieces of work, a block each. Kernels stride over the rest. */
static inline unsigned blocks_of(int64_t count) {
  return (unsigned)(count < 1 ? 1 : count < MOST_BLOCKS ? count : (int64_t)MOST_BLOCKS);
}

/* Adds up `value` of all threads of a block of THREADS in a fixed tree. All threads get the sum. */
static __device__ __forceinline__ double sum_of_block(double value) {
  __shared__ double lanes[THREADS];
  lanes[threadIdx.x] = value;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if ((int)threadIdx.x < half)
      lanes[threadIdx.x] += lanes[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = lanes[0];
  __syncthreads();
  return sum;
}
