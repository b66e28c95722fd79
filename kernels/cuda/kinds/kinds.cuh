/* SPDX-License-Identifier: MIT */
/* Helpers of the steps between the products of layers. A thread makes a number of a tensor. */
#pragma once

#include "kernels/layer_planes.h"

#include <cuda_runtime.h>

enum { THREADS = 256, MOST_BLOCKS = 1 << 20 };

/* Returns the blocks for `count` numbers, a thread each. Kernels stride over the rest. */
static inline unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count - 1) / THREADS + 1;
  return (unsigned)(blocks < MOST_BLOCKS ? blocks : (int64_t)MOST_BLOCKS);
}

/* For each i < count that belongs to this thread. */
#define FOR_OWN(i, count)                                                                                                   \
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (count); i += (int64_t)gridDim.x * THREADS)
