/* SPDX-License-Identifier: MIT */
/* A network in the shared memory of a multiprocessor: what lies where, how it gets there, and how the blocks of a cluster
 * share it. */
#pragma once

#include "../core/copies.cuh"
#include "layers.h"

enum {
  CLUSTER = 4,
  WORKERS = 16, /* warps that compute; where a kernel takes many steps, one more tells what they came to */
  WORKING = 32 * WORKERS,
  LAYERS = 8,
  STATIC_BYTES = 11 << 10, /* of shared memory, that kernels declare themselves, at most */
  ARRANGED_BYTES = 64 << 20
};

namespace {

struct resident_layer {
  int32_t inputs, outputs;
  int64_t weights; /* where they are in the parameters */
  /* Where these are in shared memory, in floats: */
  int32_t w, w_pitch;
  int32_t x, dz; /* the input, and the gradient of the sums */
  gconv_activation activation;
  float slope;
  bool whole; /* each block of a cluster computes all of its outputs, and has weights and state of its own */
};

struct resident_net {
  resident_layer layers[LAYERS];
  int32_t count, inputs, outputs;
  int32_t room, pitch; /* cases that there is room for, 32, 64 or 128; from one row of values to the next */
  int32_t rows;        /* of a block of inputs, behind which are its targets: one row of classes, or one an output */
  int32_t y, soft;     /* the last output, and room for softmax, in shared memory */
  int32_t next;        /* the other input of layer 0; -1: there is none, and the next inputs come when all is done */
  int32_t losses;      /* of `room` doubles */
  int32_t first, second, floats; /* what the optimiser keeps: as far behind the weights; all */
  gconv_loss loss;
  bool classes;
  float factor, last_factor; /* gconv_learn_factor() of a batch, and of the last one */
};

struct run_of {
  const float *blocks; /* of inputs and targets, rows x pitch, one for each slice of each step */
  int64_t cases;
  int32_t batch;
  float *parameters, *first, *second;
  gconv_learn_outcome *outcomes;
  uint32_t *bad;
};

extern __shared__ __align__(16) float shared[];

__device__ __forceinline__ int32_t lane_of() {
  return (int32_t)threadIdx.x % 32;
}
__device__ __forceinline__ int32_t warp_of() {
  return (int32_t)threadIdx.x / 32;
}

/* A block has room for ROOM cases, 32, 64 or 128; behind them are 4 more floats, so that the next row of values begins in
 * other banks. Lanes have a case, or two of them. */
template <int ROOM> constexpr int PITCH = ROOM + 4;
template <int ROOM> constexpr int EACH = ROOM > 32 ? 2 : 1;

/* ---- Blocks that take a step together ---- */

/* Blocks of a cluster share the outputs of each layer, eight neighbours at a time; each computes their values, their
 * gradients and the change of their weights, and writes into the shared memory of all what the others need. A small last
 * layer is computed by each block as a whole: that takes less time than to meet. Only GPUs of compute capability 9.0 and
 * later have clusters; on others there is one block. */
template <int BLOCKS> __device__ __forceinline__ int32_t block_of_cluster() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1)
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return (int32_t)rank;
}

/* The blocks of a cluster wait for each other, in two halves: who has arrived does what needs no other block, and then
 * awaits them. What a thread wrote before it arrived is seen by those that awaited, if it `tells`: that takes some 700
 * cycles. A block alone has one half, for all warps. */
template <int BLOCKS> __device__ __forceinline__ void arrive(bool tells = true) {
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1 && tells)
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  else if (BLOCKS > 1)
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
template <int BLOCKS> __device__ __forceinline__ void await() {
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1) {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}
template <int BLOCKS> __device__ __forceinline__ void meet_blocks() {
  arrive<BLOCKS>();
  await<BLOCKS>();
}

/* The workers of a block wait for each other. */
__device__ __forceinline__ void meet_workers() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * WORKERS) : "memory");
}

/* Writes to this place in the shared memory of all blocks, or of the own one `alone`. */
template <int BLOCKS> __device__ __forceinline__ void store(bool alone, float *at, float value) {
  *at = value;
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1 && !alone) {
    const uint32_t own = (uint32_t)__cvta_generic_to_shared(at), rank = (uint32_t)block_of_cluster<BLOCKS>();
    UNROLLED_FOR (uint32_t i = 1; i < BLOCKS; i++)
      asm volatile(
          "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.f32 [there], %2; }" ::"r"(own),
          "r"((rank + i) % BLOCKS), "f"(value)
          : "memory");
  }
#endif
}

/* How many of a layer's outputs are the block's own, and which output is number i of these. The former is a multiple of 8:
 * the last ones may be past the last output of the layer, and the caller leaves them out. */
enum { NEIGHBOURS = 8 };
template <int BLOCKS> __device__ __forceinline__ int32_t own_outputs(const resident_layer &l) {
  const int32_t parts = (l.outputs + NEIGHBOURS - 1) / NEIGHBOURS;
  const int32_t own = BLOCKS == 1 || l.whole ? parts : (parts - block_of_cluster<BLOCKS>() + BLOCKS - 1) / BLOCKS;
  return own * NEIGHBOURS;
}
template <int BLOCKS> __device__ __forceinline__ int32_t own_output(const resident_layer &l, int32_t i) {
  return BLOCKS == 1 || l.whole ? i : (i / NEIGHBOURS * BLOCKS + block_of_cluster<BLOCKS>()) * NEIGHBOURS + i % NEIGHBOURS;
}

/* ---- Loading ---- */

/* Writes inputs and targets as blocks: a step has `slices` of them, the last one zeros where no case is. */
__global__ void arrange(resident_net net, const float *inputs, const float *targets, const size_t *numbers, int64_t cases,
                        int64_t batch, int64_t slices, int64_t steps, float *blocks) {
  const int64_t of_block = (int64_t)net.rows * net.pitch, all = steps * slices * of_block;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < all; i += gridDim.x * (int64_t)blockDim.x) {
    const int64_t block = i / of_block, step = block / slices, rest = i - block * of_block;
    const int32_t n = (int32_t)(rest / net.rows), row = (int32_t)(rest - (int64_t)n * net.rows);
    const int64_t in_step = (block - step * slices) * GCONV_LEARN_SLICE + n, at = step * batch + in_step;
    float value = 0;
    if (n < net.room && in_step < batch && at < cases) {
      const int64_t number = (int64_t)numbers[at];
      const int32_t wide = net.rows - net.inputs;
      value = row < net.inputs ? inputs[number * net.inputs + row] : targets[number * wide + row - net.inputs];
    }
    blocks[block * of_block + (int64_t)row * net.pitch + n] = value;
  }
}

/* Begins to copy a block to shared memory. By the workers, as what follows. */
__device__ void begin_block(const resident_net &net, const float *block, int32_t to) {
  for (int32_t i = 4 * (int32_t)threadIdx.x; i < net.rows * net.pitch; i += 4 * WORKING)
    copy_async<16>(&shared[to + i], &block[i]);
  commit_copies();
}

/* The number of the parameter of output k and input c; behind the inputs is the bias. */
__device__ __forceinline__ int64_t parameter_of(const resident_layer &l, int32_t k, int32_t c) {
  return l.weights + (c < l.inputs ? k * l.inputs + c : l.inputs * l.outputs + k);
}

/* Calls use(place in shared memory, number of the parameter) for each parameter of the block's own outputs. The workers
 * share them out, so that each is called for some. With BLOCKS of 1, a block's own outputs are all outputs. */
template <int BLOCKS, class Use> __device__ void for_parameters(const resident_net &net, Use use) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer &l = net.layers[i];
    const int32_t own = own_outputs<BLOCKS>(l);
    for (int32_t j = warp_of(); j < own; j += WORKERS) {
      const int32_t k = own_output<BLOCKS>(l, j);
      for (int32_t c = lane_of(); c <= l.inputs && k < l.outputs; c += 32)
        use(l.w + k * l.w_pitch + c, parameter_of(l, k, c));
    }
  }
}

__device__ void begin_array(const resident_net &net, const float *from, int32_t to) {
  for_parameters<1>(net, [&](int32_t at, int64_t i) { copy_async<4>(&shared[to + at], &from[i]); });
  commit_copies();
}

template <int BLOCKS> __device__ void store_array(const resident_net &net, int32_t from, float *to) {
  for_parameters<BLOCKS>(net, [&](int32_t at, int64_t i) { to[i] = shared[from + at]; });
}

} // namespace
