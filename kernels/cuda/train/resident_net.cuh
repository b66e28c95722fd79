/* SPDX-License-Identifier: MIT */
/* The layout of a network in shared memory, how it is loaded, and how the blocks of a cluster share it. */
#pragma once

#include "../core/copies.cuh"
#include "layers.h"

enum {
  CLUSTER = 4,
  WORKERS = 16, /* warps that compute; the kernel of one slice has one more for losses */
  WORKING = 32 * WORKERS,
  LAYERS = 8,
  STATIC_BYTES = 11 << 10, /* the most shared memory that kernels declare statically */
  ARRANGED_BYTES = 64 << 20
};

namespace {

struct resident_layer {
  int32_t inputs, outputs;
  int64_t weights; /* offset in the parameters */
  /* Offsets and pitches in shared memory, in floats: */
  int32_t w, w_pitch;
  int32_t x, dz, dz_pitch; /* the input, and the gradient of the sums */
  gconv_activation activation;
  float slope;
  bool by_cases; /* the last layer in steps of one slice, with the layout of resident_cases.cuh */
};

struct resident_net {
  resident_layer layers[LAYERS];
  int32_t count, inputs, outputs;
  int32_t room, pitch; /* room: the most cases, 32, 64 or 128; pitch: floats of a row of values */
  int32_t rows;        /* rows of a block: its inputs, then its targets: a row of classes, or a row for each output */
  int32_t y, soft;     /* offsets of the last layer's outputs (in the layout of dz), and of softmax's workspace */
  int32_t next;        /* offset of the inputs of the next step; -1: there is no room, so they are loaded after the step */
  int32_t ones;        /* offset of `room` ones, the inputs of biases */
  int32_t arrivals;    /* offset of the counters of bytes from other blocks, and of a word from each block */
  int32_t first, second, floats; /* distance of the optimiser's arrays from the weights; floats of the whole layout */
  gconv_loss loss;
  bool classes;
  float factor, last_factor; /* gconv_learn_factor() of a batch, and of the last batch */
};

struct run_of {
  const float *blocks; /* inputs and targets: [step][slice], rows x pitch each */
  int64_t cases;
  int32_t batch;
  float *parameters, *first, *second;
  gconv_learn_outcome *outcomes, *of_cases; /* outcomes of each step; of each case of each step */
  uint32_t *bad;
};

extern __shared__ __align__(16) float shared[];

__device__ __forceinline__ int32_t lane_of() {
  return (int32_t)threadIdx.x % 32;
}
__device__ __forceinline__ int32_t warp_of() {
  return (int32_t)threadIdx.x / 32;
}

__device__ __forceinline__ void swap(int32_t &a, int32_t &b) {
  const int32_t was = a;
  a = b;
  b = was;
}

/* A row of values has ROOM cases, 32, 64 or 128, and 4 more floats, so that the next row begins in other banks. A lane has
 * 1, 2 or 4 neighbouring cases, so that a warp has all of them. */
template <int ROOM> constexpr int PITCH = ROOM + 4;
template <int ROOM> constexpr int EACH = ROOM / 32;

/* Loads and stores the values of a lane's cases. */
template <int N> __device__ __forceinline__ void load_cases(const float *at, float (&values)[N]) {
  if constexpr (N == 4) {
    const float4 four = *(const float4 *)at;
    values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
  } else if constexpr (N == 2) {
    const float2 two = *(const float2 *)at;
    values[0] = two.x, values[1] = two.y;
  } else {
    values[0] = *at;
  }
}
template <int N> __device__ __forceinline__ void store_cases(float *at, const float (&values)[N]) {
  if constexpr (N == 4)
    *(float4 *)at = {values[0], values[1], values[2], values[3]};
  else if constexpr (N == 2)
    *(float2 *)at = {values[0], values[1]};
  else
    *at = values[0];
}

/* ---- Blocks that take a step together ---- */

/* The blocks of a cluster share the outputs of all layers but the last, eight neighbours at a time. A block computes the
 * values and gradients of its outputs, updates their weights, and writes the numbers that other blocks need to their shared
 * memory. In the last layer, blocks share the cases. For its update, they share its inputs in the same way as the outputs of
 * the layer before. Clusters exist from compute capability 9.0 on; other GPUs use one block. */
template <int BLOCKS> __device__ __forceinline__ int32_t block_of_cluster() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1)
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return (int32_t)rank;
}

/* Waits for all threads of the cluster, or of the block. A barrier of a cluster takes some 700 cycles. */
template <int BLOCKS> __device__ __forceinline__ void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

/* Waits for the workers of the block. */
__device__ __forceinline__ void sync_workers() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * WORKERS) : "memory");
}

/* Writes a value to place `at` in the shared memory of all blocks. alone: writes in the own block only. */
template <int BLOCKS> __device__ __forceinline__ void store(bool alone, float *at, float value) {
  *at = value;
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1 && !alone) {
    const uint32_t own = shared_address(at), rank = (uint32_t)block_of_cluster<BLOCKS>();
    UNROLLED_FOR (uint32_t i = 1; i < BLOCKS; i++)
      asm volatile(
          "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.f32 [there], %2; }" ::"r"(own),
          "r"((rank + i) % BLOCKS), "f"(value)
          : "memory");
  }
#endif
}

/* Numbers are sent to other blocks without a barrier of the cluster: an mbarrier of the receiver counts the bytes. The
 * receiver says how many bytes it expects, and waits for them. `arrival` is the address of the mbarrier, `phase` the number
 * of earlier waits. Before a block sends bytes of the next phase, it must know that the receiver has ended the present
 * phase. */
enum { ARRIVED_OUTPUTS, ARRIVED_GRADIENTS, ARRIVALS };

__device__ __forceinline__ uint32_t arrival_of(const resident_net &net, int32_t which) {
  return shared_address(shared + net.arrivals + 2 * which);
}
template <int BLOCKS> __device__ __forceinline__ void send(uint32_t arrival, float *at, float value, int32_t block) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .b32 there, counter;\n"
      "mapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 counter, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %3, [counter]; }" ::"r"(shared_address(at)),
      "r"(arrival), "r"(block), "r"(__float_as_uint(value))
      : "memory");
#endif
}
template <int BLOCKS> __device__ __forceinline__ void send_all(uint32_t arrival, float *at, float value) {
  UNROLLED_FOR (int32_t i = 1; i < BLOCKS; i++)
    send<BLOCKS>(arrival, at, value, (block_of_cluster<BLOCKS>() + i) % BLOCKS);
}
/* One thread calls make_arrival() once, and expect() in each phase. */
__device__ __forceinline__ void make_arrival(uint32_t arrival) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(arrival) : "memory");
#endif
}
__device__ __forceinline__ void expect(uint32_t arrival, int32_t floats) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrival), "r"(4 * floats) : "memory");
#endif
}
template <int BLOCKS> __device__ __forceinline__ void await_arrival(uint32_t arrival, int32_t phase) {
#if __CUDA_ARCH__ >= 900
  if (BLOCKS == 1)
    return;
  uint32_t arrived = 0;
  while (!arrived)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(arrived)
        : "r"(arrival), "r"(phase & 1)
        : "memory");
#endif
}

/* own_rows() returns how many of `count` rows are the block's own, rounded up to a multiple of 8. The caller skips rows past
 * the last. own_row() returns the number of the block's own row i. */
enum { NEIGHBOURS = 8 };
template <int BLOCKS> __device__ __forceinline__ int32_t own_rows(int32_t count) {
  const int32_t parts = (count + NEIGHBOURS - 1) / NEIGHBOURS;
  return (parts - block_of_cluster<BLOCKS>() + BLOCKS - 1) / BLOCKS * NEIGHBOURS;
}
template <int BLOCKS> __device__ __forceinline__ int32_t own_row(int32_t i) {
  return BLOCKS == 1 ? i : (i / NEIGHBOURS * BLOCKS + block_of_cluster<BLOCKS>()) * NEIGHBOURS + i % NEIGHBOURS;
}

/* ---- Loading ---- */

/* Writes inputs and targets as blocks, `slices` for each step. Padding of the last slice is 0. */
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

/* begin_floats() begins to copy `count` floats, a multiple of four, to shared memory; begin_block() copies a block of inputs
 * and targets. The workers from thread `first` on copy. */
__device__ void begin_floats(const float *from, int32_t count, int32_t to, int32_t first = 0) {
  for (int32_t i = 4 * ((int32_t)threadIdx.x - first); i >= 0 && i < count; i += 4 * (WORKING - first))
    copy_async<16>(&shared[to + i], &from[i]);
  commit_copies();
}
__device__ void begin_block(const resident_net &net, const float *block, int32_t to, int32_t first = 0) {
  begin_floats(block, net.rows * net.pitch, to, first);
}

/* Returns the number of the parameter of output k and input c; input l.inputs is the bias. */
__device__ __forceinline__ int64_t parameter_of(const resident_layer &l, int32_t k, int32_t c) {
  return l.weights + (c < l.inputs ? k * l.inputs + c : l.inputs * l.outputs + k);
}

/* Returns the rows of weights in shared memory: one for each output; in a layer by cases, for each input and for biases. */
__device__ __forceinline__ int32_t weight_rows(const resident_layer &l) {
  return l.by_cases ? l.inputs + 1 : l.outputs;
}

/* Calls use(offset in shared memory, number of the parameter) for each parameter in the block's own rows, which its workers
 * share. If BLOCKS is 1, all rows are own rows. */
template <int BLOCKS, class Use> __device__ void for_parameters(const resident_net &net, Use use) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer &l = net.layers[i];
    const int32_t rows = weight_rows(l), own = own_rows<BLOCKS>(rows), wide = l.by_cases ? l.outputs : l.inputs + 1;
    for (int32_t j = warp_of(); j < own; j += WORKERS) {
      const int32_t row = own_row<BLOCKS>(j);
      for (int32_t c = lane_of(); c < wide && row < rows; c += 32)
        use(l.w + row * l.w_pitch + c, l.by_cases ? parameter_of(l, c, row) : parameter_of(l, row, c));
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
