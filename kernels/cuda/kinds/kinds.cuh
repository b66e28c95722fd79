/* SPDX-License-Identifier: MIT */
/* Helpers of kinds of layers that are not products. A thread computes one number of a tensor at a time. */
#pragma once

#include "kernels/layer_planes.h"

#include <cuda_runtime.h>

enum { THREADS = 256, MOST_BLOCKS = 1 << 20 };

/* Returns how many blocks have a thread for each of `count` numbers, at most MOST_BLOCKS. Kernels stride over the others. */
static inline unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count - 1) / THREADS + 1;
  return (unsigned)(blocks < MOST_BLOCKS ? blocks : (int64_t)MOST_BLOCKS);
}

/* Loops over each i < count that belongs to this thread. */
#define FOR_OWN(i, count)                                                                                                   \
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (count); i += (int64_t)gridDim.x * THREADS)
