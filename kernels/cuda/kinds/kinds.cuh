/* SPDX-License-Identifier: MIT */
/* What the kinds of layers that no algorithm solves share on a GPU. */
#pragma once

#include "kernels/layer_planes.h"

#include <cuda_runtime.h>

enum { KIND_THREADS = 256, KIND_MOST_BLOCKS = 1 << 20 };

/* Blocks for `count` numbers, a thread each. Kernels stride over the rest. */
static inline unsigned blocks_for(int64_t count) {
  const int64_t blocks = (count - 1) / KIND_THREADS + 1;
  return (unsigned)(blocks < KIND_MOST_BLOCKS ? blocks : (int64_t)KIND_MOST_BLOCKS);
}

/* For each i < count that belongs to this thread. */
#define FOR_OWN(i, count)                                                                                                   \
  for (int64_t i = (int64_t)blockIdx.x * KIND_THREADS + threadIdx.x; i < (count); i += (int64_t)gridDim.x * KIND_THREADS)
