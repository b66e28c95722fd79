/* SPDX-License-Identifier: MIT */
/*
 * Values and gradients of a layer lie in shared memory as [output][case], weights as [output][input] with the bias behind
 * the inputs. A step goes so; between its parts, the threads of a block wait for each other:
 *
 *   1. forward, layer by layer; the inputs of the next step are on their way meanwhile
 *   2. softmax, and the gradient of the sums of the last layer
 *   3. the gradients of the other layers' sums, from the last to the first
 *   4. the gradients of all weights, and their change; meanwhile, the last warp sums the losses
 *
 * Reading shared memory takes as long as multiplying. So what all lanes of a warp want is read once for all, four numbers at
 * a time: in 1 and 3, a lane has a case (or two), and its warp some outputs, whose weights all lanes share. In 4, a lane has
 * two inputs, and its warp some outputs, whose gradients all lanes share. Rows of values begin at odd multiples of 16 bytes,
 * so that lanes which read the same column of neighbouring rows meet no conflicts of banks. Loops are unrolled only where
 * multiply-adds are: a step is so short that fetching its instructions counts.
 *
 * Where a batch has several slices, each block does 1 to 4 for some of them, and writes the gradients of a slice as a leaf.
 * When all blocks have, they share out the parameters: each is changed by the sum of its leaves.
 */
#include "device/cuda_error.h"
#include "resident.h"

#include <cuda_pipeline.h>

#include <stdlib.h>

enum {
  CLUSTER = 4,
  THREADS = 512,
  WARPS = THREADS / 32,
  WORKERS = WARPS - 1,
  LAYERS = 8,
  SHARED_BYTES = 216 << 10,
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
};

struct resident_net {
  resident_layer layers[LAYERS];
  int32_t count, inputs, outputs;
  int32_t room, pitch; /* cases that there is room for, 32, 64 or 128; from one row of values to the next */
  int32_t rows;        /* of a block of inputs, behind which are its targets: one row of classes, or one an output */
  int32_t y, soft;     /* the last output, and room for softmax, in shared memory */
  int32_t next;        /* the other input of layer 0; -1: there is none, and the next inputs come when all is done */
  int32_t losses;      /* of `room` doubles */
  int32_t gradient, first, second, floats; /* gradients, and what the optimiser keeps: as far behind the weights; all */
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
 * gradients and the change of their weights, and writes into the shared memory of all what the others need. Only GPUs of
 * compute capability 9.0 and later have clusters; on others there is one block. */
template <int BLOCKS> __device__ __forceinline__ int32_t block_of_cluster() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1)
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return (int32_t)rank;
}

/* The blocks wait for each other. */
template <int BLOCKS> __device__ __forceinline__ void arrive() {
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1)
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
template <int BLOCKS> __device__ __forceinline__ void await() {
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1)
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
template <int BLOCKS> __device__ __forceinline__ void meet_blocks() {
  if (BLOCKS == 1) {
    __syncthreads();
  } else {
    arrive<BLOCKS>();
    await<BLOCKS>();
  }
}

/* Writes to this place in the shared memory of all blocks. */
template <int BLOCKS> __device__ __forceinline__ void store_in_all(float *at, float value) {
#if __CUDA_ARCH__ >= 900
  if (BLOCKS > 1) {
    const uint32_t own = (uint32_t)__cvta_generic_to_shared(at);
#pragma unroll
    for (int i = 0; i < BLOCKS; i++)
      asm volatile(
          "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.f32 [there], %2; }" ::"r"(own),
          "r"(i), "f"(value)
          : "memory");
    return;
  }
#endif
  *at = value;
}

/* The outputs of a block, of so many: a multiple of 8, of which those of the last eight may be past the last; and output i
 * of them. */
enum { NEIGHBOURS = 8 };
template <int BLOCKS> __device__ __forceinline__ int32_t own_outputs(int32_t outputs) {
  const int32_t parts = (outputs + NEIGHBOURS - 1) / NEIGHBOURS, rank = block_of_cluster<BLOCKS>();
  return (parts - rank + BLOCKS - 1) / BLOCKS * NEIGHBOURS;
}
template <int BLOCKS> __device__ __forceinline__ int32_t own_output(int32_t i) {
  return BLOCKS == 1 ? i : (i / NEIGHBOURS * BLOCKS + block_of_cluster<BLOCKS>()) * NEIGHBOURS + i % NEIGHBOURS;
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

/* Begins to copy a block to shared memory. */
__device__ void begin_block(const resident_net &net, const float *block, int32_t to) {
  for (int32_t i = 4 * (int32_t)threadIdx.x; i < net.rows * net.pitch; i += 4 * THREADS)
    __pipeline_memcpy_async(&shared[to + i], &block[i], 4 * sizeof(float));
  __pipeline_commit();
}

/* Calls use(where in shared memory, which parameter) for the parameters of the thread's own, among those of the block's own
 * outputs, if there are so many blocks. */
template <int BLOCKS, class Use> __device__ void for_parameters(const resident_net &net, Use use) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer &l = net.layers[i];
    const int32_t own = own_outputs<BLOCKS>(l.outputs);
    for (int32_t j = warp_of(); j < own; j += WARPS) {
      const int32_t k = own_output<BLOCKS>(j);
      for (int32_t c = lane_of(); c <= l.inputs && k < l.outputs; c += 32)
        use(l.w + k * l.w_pitch + c, l.weights + (c < l.inputs ? k * l.inputs + c : l.inputs * l.outputs + k));
    }
  }
}

__device__ void begin_array(const resident_net &net, const float *from, int32_t to) {
  for_parameters<1>(net, [&](int32_t at, int64_t i) { __pipeline_memcpy_async(&shared[to + at], &from[i], sizeof(float)); });
  __pipeline_commit();
}

template <int BLOCKS> __device__ void store_array(const resident_net &net, int32_t from, float *to) {
  for_parameters<BLOCKS>(net, [&](int32_t at, int64_t i) { to[i] = shared[from + at]; });
}

/* ---- Products ---- */

/* A warp computes K outputs of a case, or two, a lane. */
template <int K, int ROOM, int BLOCKS>
__device__ void forward(const resident_net &net, const resident_layer &l, int32_t x_at, int32_t y_at) {
  constexpr int N = EACH<ROOM>, GROUPS = ROOM / (32 * N);
  const int32_t tasks = (own_outputs<BLOCKS>(l.outputs) + K - 1) / K * GROUPS;
  for (int32_t task = warp_of(); task < tasks; task += WARPS) {
    const int32_t k = own_output<BLOCKS>(task / GROUPS * K), n = task % GROUPS * 32 * N + lane_of();
    const float *w[K], *x = shared + x_at + n;
    float sums[K][N] = {};
#pragma unroll
    for (int i = 0; i < K; i++)
      w[i] = shared + l.w + min(k + i, l.outputs - 1) * l.w_pitch;
    int32_t c = 0;
#pragma unroll 1
    for (; c + 4 <= l.inputs; c += 4) {
      float4 four[K];
      float xs[4][N];
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int m = 0; m < N; m++)
          xs[j][m] = x[(c + j) * PITCH<ROOM> + 32 * m];
#pragma unroll
      for (int i = 0; i < K; i++)
        four[i] = *(const float4 *)(w[i] + c);
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < K; i++)
#pragma unroll
          for (int m = 0; m < N; m++)
            sums[i][m] = fmaf(j == 0   ? four[i].x
                              : j == 1 ? four[i].y
                              : j == 2 ? four[i].z
                                       : four[i].w,
                              xs[j][m], sums[i][m]);
    }
#pragma unroll 1
    for (; c < l.inputs; c++)
#pragma unroll
      for (int i = 0; i < K; i++)
#pragma unroll
        for (int m = 0; m < N; m++)
          sums[i][m] = fmaf(w[i][c], x[c * PITCH<ROOM> + 32 * m], sums[i][m]);
    float *y = shared + y_at + k * PITCH<ROOM> + n;
    const int32_t count = min(K, l.outputs - k);
#pragma unroll
    for (int i = 0; i < K; i++)
#pragma unroll
      for (int m = 0; m < N; m++)
        if (i < count)
          y[i * PITCH<ROOM> + 32 * m] = sums[i][m];
    const float *bias = shared + l.w + k * l.w_pitch + l.inputs;
#pragma unroll 1
    for (int i = 0; i < count; i++, y += PITCH<ROOM>, bias += l.w_pitch)
#pragma unroll
      for (int m = 0; m < N; m++)
        store_in_all<BLOCKS>(&y[32 * m], gconv_learn_activate(l.activation, l.slope, y[32 * m] + *bias));
  }
}

/* The gradient of the sums of the layer before `l`: a warp computes C inputs, a multiple of 4, of a case, or two, a lane. */
template <int C, int ROOM, int BLOCKS>
__device__ void backward(const resident_net &net, const resident_layer &l, const resident_layer &before) {
  constexpr int N = EACH<ROOM>, GROUPS = ROOM / (32 * N);
  const int32_t tasks = (own_outputs<BLOCKS>(l.inputs) + C - 1) / C * GROUPS;
  for (int32_t task = warp_of(); task < tasks; task += WARPS) {
    const int32_t c = own_output<BLOCKS>(task / GROUPS * C), n = task % GROUPS * 32 * N + lane_of();
    const float *w = shared + l.w + c, *dz = shared + l.dz + n;
    float sums[C][N] = {};
#pragma unroll 2
    for (int32_t k = 0; k < l.outputs; k++) {
      float ws[C], dzs[N];
#pragma unroll
      for (int m = 0; m < N; m++)
        dzs[m] = dz[k * PITCH<ROOM> + 32 * m];
#pragma unroll
      for (int i = 0; i < C; i += 4) {
        const float4 four = *(const float4 *)(w + k * l.w_pitch + i);
        ws[i] = four.x, ws[i + 1] = four.y, ws[i + 2] = four.z, ws[i + 3] = four.w;
      }
#pragma unroll
      for (int i = 0; i < C; i++)
#pragma unroll
        for (int m = 0; m < N; m++)
          sums[i][m] = fmaf(ws[i], dzs[m], sums[i][m]);
    }
    const float *y = shared + l.x + c * PITCH<ROOM> + n;
    float *to = shared + before.dz + c * PITCH<ROOM> + n;
    const int32_t count = min(C, l.inputs - c);
#pragma unroll
    for (int i = 0; i < C; i++)
#pragma unroll
      for (int m = 0; m < N; m++)
        if (i < count)
          to[i * PITCH<ROOM> + 32 * m] = sums[i][m] + 0.0f;
#pragma unroll 1
    for (int i = 0; i < count; i++, y += PITCH<ROOM>, to += PITCH<ROOM>)
#pragma unroll
      for (int m = 0; m < N; m++)
        store_in_all<BLOCKS>(&to[32 * m], gconv_learn_slope(before.activation, before.slope, y[32 * m], to[32 * m]));
  }
}

/* The sums over `count` cases of x dz, for K outputs from k on and inputs c and c + 32. */
template <int K, int ROOM>
__device__ void sum_gradients(const resident_net &net, const resident_layer &l, int32_t x_at, int32_t count, int32_t k,
                              int32_t c, float (&sums)[K][2]) {
  const float *x[2], *dz[K];
#pragma unroll
  for (int j = 0; j < 2; j++)
    x[j] = shared + x_at + min(c + 32 * j, l.inputs - 1) * PITCH<ROOM>;
#pragma unroll
  for (int i = 0; i < K; i++)
    dz[i] = shared + l.dz + min(k + i, l.outputs - 1) * PITCH<ROOM>;
  int32_t n = 0;
#pragma unroll 1
  for (; n + 4 <= count; n += 4) {
    float4 xs[2], dzs[K];
#pragma unroll
    for (int j = 0; j < 2; j++)
      xs[j] = *(const float4 *)(x[j] + n);
#pragma unroll
    for (int i = 0; i < K; i++)
      dzs[i] = *(const float4 *)(dz[i] + n);
#pragma unroll
    for (int i = 0; i < K; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        float sum = sums[i][j];
        sum = fmaf(xs[j].x, dzs[i].x, sum);
        sum = fmaf(xs[j].y, dzs[i].y, sum);
        sum = fmaf(xs[j].z, dzs[i].z, sum);
        sums[i][j] = fmaf(xs[j].w, dzs[i].w, sum);
      }
  }
#pragma unroll 1
  for (; n < count; n++)
#pragma unroll
    for (int i = 0; i < K; i++)
#pragma unroll
      for (int j = 0; j < 2; j++)
        sums[i][j] = fmaf(x[j][n], dz[i][n], sums[i][j]);
}

/* Of a bias, whose input is 1. */
__device__ float sum_bias(const float *dz, int32_t count) {
  float sum = 0;
  int32_t n = 0;
#pragma unroll 1
  for (; n + 4 <= count; n += 4) {
    const float4 four = *(const float4 *)(dz + n);
    sum = sum + four.x;
    sum = sum + four.y;
    sum = sum + four.z;
    sum = sum + four.w;
  }
#pragma unroll 1
  for (; n < count; n++)
    sum = sum + dz[n];
  return sum;
}

/* By all warps but the last: the gradients of all parameters, which lie as the weights do. */
template <int ROOM, int BLOCKS> __device__ void find_gradients(const resident_net &net, int32_t x_at, int32_t count) {
  constexpr int K = BLOCKS > 1 ? 2 : 8;
  int32_t task = warp_of();
  for (int32_t i = net.count - 1; i >= 0; i--) {
    const resident_layer &l = net.layers[i];
    float *gradient = shared + net.gradient + l.w;
    const int32_t own = own_outputs<BLOCKS>(l.outputs), biases = (own + 31) / 32;
    const int32_t wide = (l.inputs + 63) / 64, tasks = own / K * wide;
    for (; task < tasks; task += WORKERS) {
      const int32_t k = own_output<BLOCKS>(task / wide * K), c = task % wide * 64 + lane_of();
      float sums[K][2] = {};
      sum_gradients<K, ROOM>(net, l, i == 0 ? x_at : l.x, count, k, c, sums);
#pragma unroll
      for (int a = 0; a < K; a++)
#pragma unroll
        for (int b = 0; b < 2; b++)
          if (k + a < l.outputs && c + 32 * b < l.inputs)
            gradient[(k + a) * l.w_pitch + c + 32 * b] = sums[a][b];
    }
    for (; task < tasks + biases; task += WORKERS) {
      const int32_t at = (task - tasks) * 32 + lane_of(), k = own_output<BLOCKS>(at);
      if (at < own && k < l.outputs)
        gradient[k * l.w_pitch + l.inputs] = sum_bias(shared + l.dz + k * PITCH<ROOM>, count);
    }
    task -= tasks + biases;
  }
}

/* ---- Losses ---- */

/* x_at: where the block is, whose targets stand behind its inputs. */
template <int ROOM> __device__ float target_of(const resident_net &net, int32_t x_at, int32_t k, int32_t n) {
  const float *targets = shared + x_at + net.inputs * PITCH<ROOM> + n;
  return net.classes ? (*targets == (float)k ? 1.0f : 0.0f) : targets[k * PITCH<ROOM>];
}

/* The gradient of the sums of the last layer. A lane has a case, whose outputs are shared out among some warps. Returns
 * whether a loss is not finite, to all threads. */
template <int ROOM> __device__ bool differentiate(const resident_net &net, int32_t x_at, int32_t count, float factor) {
  const resident_layer &l = net.layers[net.count - 1];
  constexpr int32_t groups = ROOM / 32, shares = WARPS / groups;
  const int32_t n = warp_of() % groups * 32 + lane_of();
  const int32_t share = warp_of() / groups;
  const float *y = shared + net.y + n, *soft = shared + net.soft + n;
  const bool softens = net.loss == GCONV_LOSS_CROSS_ENTROPY;
  bool bad = false;
  if (softens) {
    float largest = y[0];
#pragma unroll 4
    for (int32_t k = 1; k < net.outputs; k++)
      largest = fmaxf(largest, y[k * PITCH<ROOM>]);
    for (int32_t k = share; k < net.outputs; k += shares)
      shared[net.soft + k * PITCH<ROOM> + n] = gconv_exp_negative(y[k * PITCH<ROOM>] - largest);
    __syncthreads();
  }
  float sum = 0;
  if (softens)
#pragma unroll 4
    for (int32_t k = 0; k < net.outputs; k++)
      sum += soft[k * PITCH<ROOM>];
  for (int32_t k = share; k < net.outputs; k += shares) {
    const int32_t at = k * PITCH<ROOM>;
    const float own = softens ? soft[at] / sum : y[at];
    if (softens)
      shared[net.y + at + n] = own;
    if (n >= count)
      continue;
    const float d = own - target_of<ROOM>(net, x_at, k, n);
    bad = bad || !isfinite(own) || !isfinite(d);
    float dy = net.loss == GCONV_LOSS_SSE   ? d
               : net.loss != GCONV_LOSS_MAE ? d * factor
               : d > 0                      ? factor
               : d < 0                      ? -factor
                                            : 0.0f;
    if (!softens)
      dy = gconv_learn_slope(l.activation, l.slope, own, dy);
    shared[l.dz + at + n] = dy;
  }
  return __syncthreads_or(bad);
}

template <int ROOM> __device__ double loss_of(const resident_net &net, int32_t x_at, int32_t n) {
  const float *y = shared + net.y + n;
  if (net.loss == GCONV_LOSS_CROSS_ENTROPY)
    return gconv_learn_cross_entropy(y[(int32_t)shared[x_at + net.inputs * PITCH<ROOM> + n] * PITCH<ROOM>]);
  double loss = 0;
  for (int32_t k = 0; k < net.outputs; k++) {
    const double d = (double)y[k * PITCH<ROOM>] - (double)target_of<ROOM>(net, x_at, k, n);
    loss += net.loss == GCONV_LOSS_MAE ? fabs(d) : d * d;
  }
  return loss;
}

template <int ROOM> __device__ uint32_t hit_of(const resident_net &net, int32_t x_at, int32_t n) {
  const float *y = shared + net.y + n;
  const int32_t target = (int32_t)shared[x_at + net.inputs * PITCH<ROOM> + n];
  const float own = y[target * PITCH<ROOM>];
  bool miss = false;
#pragma unroll 8
  for (int32_t k = 0; k < net.outputs; k++)
    miss |= (k < target ? !(y[k * PITCH<ROOM>] < own) : k > target ? !(y[k * PITCH<ROOM>] <= own) : false);
  return !miss;
}

/* The loss of case n, into its place; and whether it was given its class. */
template <int ROOM> __device__ uint32_t find_loss(const resident_net &net, int32_t x_at, int32_t n) {
  ((double *)(shared + net.losses))[n] = loss_of<ROOM>(net, x_at, n);
  return net.classes ? hit_of<ROOM>(net, x_at, n) : 0;
}

/* By one warp: the losses of a block, summed by a tree. */
__device__ double sum_losses(const resident_net &net, int32_t count) {
  double *losses = (double *)(shared + net.losses);
  for (int32_t step = 1; step < count; step *= 2) {
    __syncwarp();
    for (int32_t i = 2 * step * lane_of(); i + step < count; i += 2 * step * 32)
      losses[i] += losses[i + step];
  }
  __syncwarp();
  return losses[0];
}

/* ---- A step ---- */

/* Whether parts of `size` of the outputs keep most warps busy. */
template <int ROOM, int BLOCKS> __device__ __forceinline__ bool are_many(int32_t outputs, int32_t size) {
  return (own_outputs<BLOCKS>(outputs) + size - 1) / size * (ROOM / 32 / EACH<ROOM>) >= WARPS * 3 / 4;
}

template <int ROOM, int BLOCKS> __device__ void run_forward(const resident_net &net, int32_t x_at) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer &l = net.layers[i];
    const int32_t x = i == 0 ? x_at : l.x, y = i + 1 < net.count ? net.layers[i + 1].x : net.y;
    if (are_many<ROOM, BLOCKS>(l.outputs, 8))
      forward<8, ROOM, BLOCKS>(net, l, x, y);
    else if (are_many<ROOM, BLOCKS>(l.outputs, 4))
      forward<4, ROOM, BLOCKS>(net, l, x, y);
    else
      forward<2, ROOM, BLOCKS>(net, l, x, y);
    meet_blocks<BLOCKS>();
  }
}

template <int ROOM, int BLOCKS> __device__ void run_backward(const resident_net &net) {
  for (int32_t i = net.count - 1; i > 0; i--) {
    const resident_layer &l = net.layers[i];
    if (are_many<ROOM, BLOCKS>(l.inputs, 8))
      backward<8, ROOM, BLOCKS>(net, l, net.layers[i - 1]);
    else
      backward<4, ROOM, BLOCKS>(net, l, net.layers[i - 1]);
    meet_blocks<BLOCKS>();
  }
}

/* Waits for all warps but the last. */
__device__ __forceinline__ void meet_workers() {
  asm volatile("bar.sync 1, %0;" ::"n"(32 * WORKERS) : "memory");
}

/* By all warps but the last. Other blocks need the weights of all layers but the first, for gradients of inputs. */
template <bool FIRST, bool SECOND, int BLOCKS>
__device__ void update(const resident_net &net, const gconv_learn_step &step) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer &l = net.layers[i];
    const int32_t own = own_outputs<BLOCKS>(l.outputs);
    for (int32_t j = warp_of(); j < own; j += WORKERS) {
      const int32_t k = own_output<BLOCKS>(j);
#pragma unroll 1
      for (int32_t c = lane_of(); c <= l.inputs && k < l.outputs; c += 32) {
        float *w = shared + l.w + k * l.w_pitch + c, changed = *w, unused = 0;
        gconv_learn_update(&step, c < l.inputs, w[net.gradient], &changed, FIRST ? w + net.first : &unused,
                           SECOND ? w + net.second : &unused);
        if (i == 0)
          *w = changed;
        else
          store_in_all<BLOCKS>(w, changed);
      }
    }
  }
}

template <gconv_optimizer OPTIMIZER, int ROOM, int BLOCKS>
__global__ void __launch_bounds__(THREADS, 1)
    take_steps(const __grid_constant__ resident_net net, run_of run, const gconv_learn_step *steps, int32_t count) {
  constexpr bool FIRST = OPTIMIZER != GCONV_OPTIMIZER_SGD, SECOND = FIRST && OPTIMIZER != GCONV_OPTIMIZER_MOMENTUM;
  int32_t x = net.layers[0].x, next = net.next;
  const int64_t of_block = (int64_t)net.rows * PITCH<ROOM>;
  begin_block(net, run.blocks, x);
  begin_array(net, run.parameters, 0);
  if (FIRST)
    begin_array(net, run.first, net.first);
  if (SECOND)
    begin_array(net, run.second, net.second);
  gconv_learn_step coming = steps[0];
  for (int32_t i = 0; i < count; i++) {
    const int32_t cases = (int32_t)min((int64_t)run.batch, run.cases - (int64_t)i * run.batch);
    gconv_learn_step step = coming;
    step.optimizer = OPTIMIZER;
    __pipeline_wait_prior(0);
    meet_blocks<BLOCKS>();
    if (next >= 0 && i + 1 < count)
      begin_block(net, run.blocks + (i + 1) * of_block, next);
    coming = steps[min(i + 1, count - 1)];
    run_forward<ROOM, BLOCKS>(net, x);
    const bool bad = differentiate<ROOM>(net, x, cases, cases == run.batch ? net.factor : net.last_factor);
    if (!bad)
      run_backward<ROOM, BLOCKS>(net);
    if (warp_of() == WORKERS) {
      uint32_t hits = 0;
      for (int32_t n = lane_of(); n < cases; n += 32)
        hits += find_loss<ROOM>(net, x, n);
      const double loss = sum_losses(net, cases);
#pragma unroll
      for (int half = 16; half > 0; half /= 2)
        hits += __shfl_xor_sync(0xffffffff, hits, half);
      if (lane_of() == 0 && block_of_cluster<BLOCKS>() == 0)
        run.outcomes[i] = {loss, hits};
    } else if (!bad) {
      find_gradients<ROOM, BLOCKS>(net, x, cases);
      meet_workers();
      update<FIRST, SECOND, BLOCKS>(net, step);
    }
    if (bad)
      break;
    if (next >= 0) {
      const int32_t swap = x;
      x = next;
      next = swap;
    } else if (i + 1 < count) {
      __syncthreads();
      begin_block(net, run.blocks + (i + 1) * of_block, x);
    }
  }
  __pipeline_wait_prior(0);
  meet_blocks<BLOCKS>(); /* none writes to another any more */
  store_array<BLOCKS>(net, 0, run.parameters);
  for_parameters<BLOCKS>(net, [&](int32_t at, int64_t) {
    if (!isfinite(shared[at]))
      *run.bad = 1;
  });
  if (FIRST)
    store_array<BLOCKS>(net, net.first, run.first);
  if (SECOND)
    store_array<BLOCKS>(net, net.second, run.second);
}

/* ---- A step of several slices ---- */

/* What blocks share, in memory of the device. */
struct together {
  int32_t slices;
  int64_t parameters;
  const uint8_t *are_weights;
  float *leaves; /* of each slice, all parameters */
  double *losses;
  uint32_t *hits;
  unsigned *arrived, all; /* blocks, of all steps so far; how many there are when they may go on */
  float *best;
  double factor, best_loss;
};

/* Waits until all blocks are here. */
__device__ void meet(const together &of) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(of.arrived, 1);
    while ((int)(*(volatile unsigned *)of.arrived - of.all) < 0)
      ;
    __threadfence();
  }
  __syncthreads();
}

/* The sum of up to 16 leaves. */
__device__ float add_leaves(const float *leaves, int64_t apart, int32_t count) {
  float leaf[16];
#pragma unroll
  for (int i = 0; i < 16; i++)
    leaf[i] = i < count ? __ldcg(leaves + i * apart) : 0.0f;
#pragma unroll
  for (int step = 1; step < 16; step *= 2)
#pragma unroll
    for (int i = 0; i < 16; i += 2 * step)
      if (i + step < count)
        leaf[i] = leaf[i] + leaf[i + step];
  return leaf[0];
}

/* The sum of up to GCONV_RESIDENT_SLICES / WARPS leaves, 16 at a time; levels[b] is that of 2^b such groups. */
__device__ float add_many_leaves(const float *leaves, int64_t apart, int32_t count) {
  float levels[4] = {};
  const int32_t groups = (count + 15) / 16;
  for (int32_t g = 0; g < groups; g++) {
    float sum = add_leaves(leaves + g * 16 * apart, apart, min(count - g * 16, 16));
    bool done = false;
#pragma unroll
    for (int b = 0; b < 4; b++) {
      if (!done && (g >> b & 1))
        sum = levels[b] + sum;
      else if (!done) {
        levels[b] = sum;
        done = true;
      }
    }
  }
  float sum = 0;
  bool any = false;
#pragma unroll
  for (int b = 0; b < 4; b++)
    if (groups >> b & 1) {
      sum = any ? levels[b] + sum : levels[b];
      any = true;
    }
  return sum;
}

/* The loss and hits of all slices, for all threads. `losses` is room for as many. */
__device__ gconv_learn_outcome sum_slices(const together &of, double *losses) {
  __shared__ unsigned hits;
  if (threadIdx.x == 0)
    hits = 0;
  __syncthreads();
  for (int32_t i = (int32_t)threadIdx.x; i < of.slices; i += THREADS) {
    losses[i] = __ldcg(of.losses + i);
    atomicAdd(&hits, __ldcg(of.hits + i));
  }
  for (int32_t step = 1; step < of.slices; step *= 2) {
    __syncthreads();
    for (int32_t i = 2 * step * (int32_t)threadIdx.x; i + step < of.slices; i += 2 * step * THREADS)
      losses[i] += losses[i + step];
  }
  __syncthreads();
  return {losses[0], hits};
}

__global__ void __launch_bounds__(THREADS, 1) take_large_step(const __grid_constant__ resident_net net, run_of run,
                                                              gconv_learn_step step, const __grid_constant__ together of) {
  constexpr int ROOM = GCONV_LEARN_SLICE;
  __shared__ double losses[GCONV_RESIDENT_SLICES];
  __shared__ float sums[WARPS][32];
  const int64_t of_block = (int64_t)net.rows * net.pitch;
  const int32_t x = net.layers[0].x;
  begin_array(net, run.parameters, 0);
  for (int32_t slice = (int32_t)blockIdx.x; slice < of.slices; slice += (int32_t)gridDim.x) {
    const int32_t cases = (int32_t)min((int64_t)GCONV_LEARN_SLICE, run.cases - (int64_t)slice * GCONV_LEARN_SLICE);
    begin_block(net, run.blocks + slice * of_block, x);
    __pipeline_wait_prior(0);
    __syncthreads();
    run_forward<ROOM, 1>(net, x);
    differentiate<ROOM>(net, x, cases, net.factor);
    run_backward<ROOM, 1>(net);
    if (warp_of() < WORKERS)
      find_gradients<ROOM, 1>(net, x, cases);
    const bool hit = (int32_t)threadIdx.x < cases && find_loss<ROOM>(net, x, (int32_t)threadIdx.x);
    const int32_t hits = __syncthreads_count(hit);
    if (warp_of() == WORKERS) {
      const double loss = sum_losses(net, cases);
      if (lane_of() == 0) {
        of.losses[slice] = loss;
        of.hits[slice] = (uint32_t)hits;
      }
    }
    float *leaf = of.leaves + slice * of.parameters;
    for_parameters<1>(net, [&](int32_t at, int64_t i) { leaf[i] = shared[net.gradient + at]; });
  }
  meet(of);
  gconv_learn_outcome outcome = sum_slices(of, losses);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    *run.outcomes = outcome;
  if (!isfinite(outcome.loss))
    return;
  const bool better = outcome.loss * of.factor < of.best_loss;
  int32_t each = 16; /* leaves that a warp adds: a power of two */
  while (each * WARPS < of.slices)
    each *= 2;
  for (int64_t first = (int64_t)blockIdx.x * 32; first < of.parameters; first += (int64_t)gridDim.x * 32) {
    const int64_t i = first + lane_of();
    const int32_t from = warp_of() * each;
    if (i < of.parameters && from < of.slices)
      sums[warp_of()][lane_of()] =
          add_many_leaves(of.leaves + from * of.parameters + i, of.parameters, min(of.slices - from, each));
    __syncthreads();
    if (warp_of() == 0 && i < of.parameters) {
      const int32_t parts = (of.slices + each - 1) / each;
      for (int32_t apart = 1; apart < parts; apart *= 2)
        for (int32_t j = 0; j + apart < parts; j += 2 * apart)
          sums[j][lane_of()] = sums[j][lane_of()] + sums[j + apart][lane_of()];
      if (better)
        of.best[i] = run.parameters[i];
      gconv_learn_update(&step, of.are_weights[i], sums[0][lane_of()], &run.parameters[i], &run.first[i], &run.second[i]);
      if (!isfinite(run.parameters[i]))
        *run.bad = 1;
    }
    __syncthreads();
  }
}

int32_t row_of(int32_t floats) { /* rounded up to an odd multiple of four */
  const int32_t fours = (floats + 3) / 4;
  return 4 * (fours | 1);
}

/* Lays a network out for up to `cases` at a time; arrays: of the optimiser. False if it does not fit. */
bool lay_out(const gconv_learn_net *net, size_t cases, int arrays, bool twice, resident_net *made) {
  *made = {};
  made->count = (int32_t)net->count;
  made->room = cases <= 32 ? 32 : cases <= 64 ? 64 : 128;
  made->pitch = made->room + 4;
  made->loss = net->loss;
  made->classes = net->classes;
  made->inputs = (int32_t)gconv_learn_in_floats(&net->layers[0]);
  made->outputs = (int32_t)gconv_learn_outputs(net);
  made->rows = made->inputs + (int32_t)gconv_learn_target_floats(net);
  int64_t at = 0;
  const auto take = [&](int64_t floats) {
    const int64_t from = at;
    at += floats;
    return (int32_t)from;
  };
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_layer *layer = &net->layers[i];
    resident_layer *l = &made->layers[i];
    l->inputs = (int32_t)gconv_learn_in_floats(layer);
    l->outputs = (int32_t)gconv_learn_out_floats(layer);
    l->weights = (int64_t)layer->weights;
    l->activation = layer->problem.activation;
    l->slope = layer->problem.slope;
    l->w_pitch = row_of(l->inputs + 1);
    l->w = take((int64_t)l->w_pitch * l->outputs);
  }
  made->gradient = (int32_t)at;
  made->first = (int32_t)(2 * at);
  made->second = (int32_t)(3 * at);
  at *= 2 + arrays;
  const int64_t pitch = made->pitch;
  for (int32_t i = 0; i < made->count; i++) {
    resident_layer *l = &made->layers[i];
    l->x = take(pitch * (i == 0 ? made->rows : l->inputs));
    l->dz = take(pitch * l->outputs);
  }
  made->y = take(pitch * made->outputs);
  made->soft = take(net->loss == GCONV_LOSS_CROSS_ENTROPY ? pitch * made->outputs : 0);
  made->losses = take(2 * made->room);
  made->next = -1;
  if (twice)
    made->next = take(pitch * made->rows);
  made->floats = (int32_t)at;
  return at * (int64_t)sizeof(float) <= SHARED_BYTES;
}

} // namespace

struct gconv_resident {
  gconv_learn_net net;
  size_t batch, slices;
  resident_net for_arrays[3]; /* with 0, 1 and 2 arrays of the optimiser; its count is 0 where it does not fit */
  resident_net for_slices;    /* likewise */
  bool has_clusters;
  unsigned blocks, arrived; /* of several slices: blocks; how many have arrived when all is done that was started */
  /* Of the device: */
  gconv_learn_step *steps;
  float *arranged; /* blocks of inputs and targets */
  size_t arranged_steps;
  float *leaves;
  double *losses;
  uint32_t *hits;
  unsigned *arrivals;
};

static const resident_net *net_for(const gconv_resident *resident, gconv_optimizer optimizer) {
  const int arrays = optimizer == GCONV_OPTIMIZER_SGD ? 0 : optimizer == GCONV_OPTIMIZER_MOMENTUM ? 1 : 2;
  return resident->slices > 1 ? &resident->for_slices : &resident->for_arrays[arrays];
}

bool gconv_resident_takes(const gconv_resident *resident, gconv_optimizer optimizer) {
  return resident && net_for(resident, optimizer)->count > 0;
}

size_t gconv_resident_steps(const gconv_resident *resident) {
  return resident->slices > 1 ? 1 : resident->arranged_steps;
}

void gconv_resident_free(gconv_resident *resident) {
  if (!resident)
    return;
  cudaFree(resident->steps);
  cudaFree(resident->arranged);
  cudaFree(resident->leaves);
  cudaFree(resident->losses);
  cudaFree(resident->hits);
  cudaFree(resident->arrivals);
  free(resident);
}

static bool is_for(const gconv_learn_net *net, size_t batch) {
  const gconv_learn_layer *last = &net->layers[net->count - 1];
  bool fits = net->count <= LAYERS && gconv_learn_tail(net) == 0 && net->parameters < (size_t)SHARED_BYTES &&
              batch <= (size_t)GCONV_RESIDENT_SLICES * GCONV_LEARN_SLICE;
  for (size_t i = 0; i < net->count; i++) {
    const gconv_learn_layer *layer = &net->layers[i];
    const bool soft = layer->problem.activation == GCONV_ACTIVATION_SOFTMAX;
    fits = fits && layer->kind == GCONV_LAYER_CONV && (!soft || (layer == last && net->loss == GCONV_LOSS_CROSS_ENTROPY)) &&
           gconv_learn_in_floats(layer) <= 16384 && gconv_learn_out_floats(layer) <= 16384;
  }
  return fits;
}

/* Memory for blocks of as many steps as a kernel takes, and for what blocks share. */
static gconv_status allocate_for(gconv_resident *made) {
  const resident_net *net = made->slices > 1 ? &made->for_slices : &made->for_arrays[0];
  const size_t step = made->slices * (size_t)net->rows * (size_t)net->pitch * sizeof(float);
  made->arranged_steps = made->slices > 1 ? 1 : ARRANGED_BYTES / step;
  if (made->arranged_steps > GCONV_RESIDENT_STEPS)
    made->arranged_steps = GCONV_RESIDENT_STEPS;
  CUDA_TRY(cudaMalloc(&made->arranged, made->arranged_steps * step));
  CUDA_TRY(cudaMalloc(&made->steps, GCONV_RESIDENT_STEPS * sizeof *made->steps));
  int device = 0, units = 0, major = 0;
  CUDA_TRY(cudaGetDevice(&device));
  CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  made->has_clusters = major >= 9;
  if (made->slices == 1)
    return GCONV_OK;
  CUDA_TRY(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device));
  made->blocks = made->slices < (size_t)units ? (unsigned)made->slices : (unsigned)units;
  CUDA_TRY(cudaMalloc(&made->leaves, made->slices * made->net.parameters * sizeof *made->leaves));
  CUDA_TRY(cudaMalloc(&made->losses, made->slices * sizeof *made->losses));
  CUDA_TRY(cudaMalloc(&made->hits, made->slices * sizeof *made->hits));
  CUDA_TRY(cudaMalloc(&made->arrivals, sizeof *made->arrivals));
  CUDA_TRY(cudaMemset(made->arrivals, 0, sizeof *made->arrivals));
  return GCONV_OK;
}

gconv_status gconv_resident_make(const gconv_learn_net *net, size_t batch, gconv_resident **resident) {
  *resident = NULL;
  if (!is_for(net, batch))
    return GCONV_OK;
  gconv_resident *made = (gconv_resident *)calloc(1, sizeof *made);
  if (!made)
    return gconv_fail(GCONV_NO_MEMORY, "no memory for training");
  made->net = *net;
  made->batch = batch;
  made->slices = (batch + GCONV_LEARN_SLICE - 1) / GCONV_LEARN_SLICE;
  bool any = false;
  for (int arrays = 0; arrays < 3 && made->slices == 1; arrays++)
    if (lay_out(net, batch, arrays, true, &made->for_arrays[arrays]) ||
        lay_out(net, batch, arrays, false, &made->for_arrays[arrays]))
      any = true;
    else
      made->for_arrays[arrays].count = 0;
  if (made->slices > 1 && lay_out(net, GCONV_LEARN_SLICE, 0, false, &made->for_slices))
    any = true;
  else
    made->for_slices.count = 0;
  const gconv_status status = any ? allocate_for(made) : GCONV_OK;
  if (any && status == GCONV_OK)
    *resident = made;
  else
    gconv_resident_free(made);
  return status;
}

template <class Kernel> static gconv_status allow_shared(Kernel kernel, const resident_net &net) {
  CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, net.floats * (int)sizeof(float)));
  return GCONV_OK;
}

template <int ROOM, int BLOCKS>
static gconv_status start_steps(const gconv_resident *resident, const resident_net &net, const run_of &run,
                                gconv_optimizer optimizer, size_t count, cudaStream_t stream) {
  const auto start = [&](auto kernel) {
    GCONV_TRY(allow_shared(kernel, net));
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {BLOCKS, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(BLOCKS);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = (size_t)net.floats * sizeof(float);
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = BLOCKS > 1;
    CUDA_TRY(cudaLaunchKernelEx(&config, kernel, net, run, (const gconv_learn_step *)resident->steps, (int32_t)count));
    return GCONV_OK;
  };
  switch (optimizer) {
  case GCONV_OPTIMIZER_ADAM:
    return start(take_steps<GCONV_OPTIMIZER_ADAM, ROOM, BLOCKS>);
  case GCONV_OPTIMIZER_MOMENTUM:
    return start(take_steps<GCONV_OPTIMIZER_MOMENTUM, ROOM, BLOCKS>);
  case GCONV_OPTIMIZER_RPROP:
    return start(take_steps<GCONV_OPTIMIZER_RPROP, ROOM, BLOCKS>);
  default:
    return start(take_steps<GCONV_OPTIMIZER_SGD, ROOM, BLOCKS>);
  }
}

static gconv_status start_large_step(gconv_resident *resident, resident_net net, run_of run, const gconv_resident_run *given,
                                     gconv_learn_step step, cudaStream_t stream) {
  resident->arrived += resident->blocks;
  together of = {(int32_t)((given->cases + GCONV_LEARN_SLICE - 1) / GCONV_LEARN_SLICE),
                 (int64_t)resident->net.parameters,
                 given->are_weights,
                 resident->leaves,
                 resident->losses,
                 resident->hits,
                 resident->arrivals,
                 resident->arrived,
                 given->best,
                 given->factor,
                 given->best_loss};
  void *arguments[] = {&net, &run, &step, &of};
  GCONV_TRY(allow_shared(take_large_step, net));
  CUDA_TRY(cudaLaunchCooperativeKernel(take_large_step, dim3(resident->blocks), dim3(THREADS), arguments,
                                       (size_t)net.floats * sizeof(float), stream));
  return GCONV_OK;
}

gconv_status gconv_resident_start(gconv_resident *resident, const gconv_resident_run *run, const gconv_learn_step *steps,
                                  size_t count, cudaStream_t stream) {
  resident_net net = *net_for(resident, steps[0].optimizer);
  const run_of of = {resident->arranged,
                     (int64_t)run->cases,
                     (int32_t)resident->batch,
                     run->parameters,
                     run->first,
                     run->second,
                     run->outcomes,
                     run->bad};
  const size_t last = run->cases - (count - 1) * resident->batch;
  net.factor = (float)gconv_learn_factor(&resident->net, resident->slices > 1 ? run->cases : resident->batch);
  net.last_factor = (float)gconv_learn_factor(&resident->net, last < resident->batch ? last : resident->batch);
  if (!run->same)
    arrange<<<1024, 256, 0, stream>>>(net, run->inputs, run->targets, run->numbers, (int64_t)run->cases,
                                      (int64_t)resident->batch, (int64_t)resident->slices, (int64_t)count,
                                      resident->arranged);
  if (resident->slices > 1)
    return start_large_step(resident, net, of, run, steps[0], stream);
  CUDA_TRY(cudaMemcpyAsync(resident->steps, steps, count * sizeof *steps, cudaMemcpyHostToDevice, stream));
  const gconv_optimizer optimizer = steps[0].optimizer;
  const auto start = resident->has_clusters ? net.room == 32   ? start_steps<32, CLUSTER>
                                              : net.room == 64 ? start_steps<64, CLUSTER>
                                                               : start_steps<128, CLUSTER>
                     : net.room == 32 ? start_steps<32, 1>
                     : net.room == 64       ? start_steps<64, 1>
                                            : start_steps<128, 1>;
  return start(resident, net, of, optimizer, count, stream);
}
