/* SPDX-License-Identifier: MIT */
/*
 * gemm: a layer as a product of matrices (implicit GEMM). The matrix of samples is never made.
 *
 * The sums are K x T weights by T x (N P Q) samples, with T = C/G R S taps in the order of the definition. A block makes a
 * tile of M filters by POSITIONS outputs. It copies a slice of both operands to shared memory, 8 taps at a time, while it
 * multiplies the slices before (cp.async, STAGES slices under way). Samples are gathered one by one; a thread always gathers
 * for the same outputs. A tap adds an offset to their addresses, from a table that prepare() makes. The copy fills zeros for
 * samples outside the image. A thread holds 8 x 8 sums in registers, so a tap costs 64 multiply-adds and four loads of four
 * numbers.
 *
 * A gathered sample takes some 12 instructions and serves M multiply-adds. So tiles are as high as there are filters: 32, 64
 * or 128. gemm is the fastest with at least as many filters; tiled and direct are with few.
 *
 * Each sum adds its taps in the order of the definition, one after the other: the exact family.
 */
#include "../../core/copies.cuh"
#include "device/cuda_error.h"
#include "kernels/activation.h"
#include "kernels/layer_algorithm.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace {

enum : int { THREADS = 256, SLICE = 8, STAGES = 4, TALL = 128 };

/* What a tap adds to the address, the row and the column of a sample. */
struct offset {
  int32_t samples;
  int16_t row, column;
};
static_assert(sizeof(offset) == 8, "two floats");

struct gemm_arguments {
  gconv_layer_problem problem;
  const float *in, *weights, *biases;
  const offset *offsets;
  float *out;
  int64_t positions;   /* N P Q */
  int32_t taps, tiles; /* of filters, of a group */
};

/* The place of the sample under the first tap of an output. */
struct anchor {
  const float *in;
  int32_t row, column;
};

template <int M> __host__ __device__ constexpr int positions_of() {
  return THREADS * 64 / M;
}
template <int M> __host__ __device__ constexpr int stage_floats() {
  return SLICE * (M + positions_of<M>());
}

/* Returns the anchor of an output in the channels of a group. Positions past the last get one for which all taps are outside
 * the image. */
DEVICE anchor anchor_of(const gemm_arguments &a, int64_t position, int32_t group) {
  const gconv_layer_problem &p = a.problem;
  if (position >= a.positions)
    return {a.in, -(1 << 30), 0};
  const int64_t row = position / p.out_width, image = row / p.out_height;
  anchor at;
  at.row = (int32_t)(row - image * p.out_height) * p.stride_y - p.pad_top;
  at.column = (int32_t)(position - row * p.out_width) * p.stride_x - p.pad_left;
  const int64_t plane = image * p.channels + group * (p.channels / p.groups);
  at.in = a.in + (plane * p.height + at.row) * p.width + at.column;
  return at;
}

/* Starts to copy taps first .. first + 7 of M filters, and the samples under them. */
template <int M>
DEVICE void stage(const gemm_arguments &a, const float *weights, const anchor *anchors, int32_t first, float *to) {
  constexpr int N = positions_of<M>(), ROWS = N < THREADS ? THREADS / N : 1, EACH = N < THREADS ? 1 : N / THREADS;
  if (first < a.taps)
    for (int i = threadIdx.x; i < SLICE * M / 4; i += THREADS)
      if (first + i / (M / 4) < a.taps)
        copy_async<16>(to + 4 * i, weights + (int64_t)first * M + 4 * i);
  to += SLICE * M + threadIdx.x % N;
  UNROLLED_FOR (int i = 0; i < SLICE; i += ROWS) {
    const int row = i + (int)threadIdx.x / N % ROWS, tap = first + row;
    if (tap >= a.taps)
      break;
    const int2 entry = __ldg((const int2 *)a.offsets + tap);
    const int32_t down = entry.y << 16 >> 16, right = entry.y >> 16;
    UNROLLED_FOR (int e = 0; e < EACH; e++) {
      const anchor &at = anchors[e];
      const bool inside = (uint32_t)(at.row + down) < (uint32_t)a.problem.height &&
                          (uint32_t)(at.column + right) < (uint32_t)a.problem.width;
      copy_async_or_zero<4>(shared_address(to + row * N + e * THREADS), inside ? at.in + entry.x : a.in, inside);
    }
  }
}

/* The place of a thread in the tile. A warp has 32 filters by 64 outputs. A thread has 4 neighbours, and 4 that are 16
 * (outputs: 32) further on. */
template <int M> DEVICE int filter_place() {
  return threadIdx.x / 32 % (M / 32) * 32 + threadIdx.x % 32 / 8 * 4;
}
template <int M> DEVICE int output_place() {
  return threadIdx.x / 32 / (M / 32) * 64 + threadIdx.x % 8 * 4;
}

DEVICE void load_eight(const float *from, int apart, float (&v)[8]) {
  const float4 low = *(const float4 *)from, high = *(const float4 *)(from + apart);
  v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w, v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

template <int M> DEVICE void multiply_tap(const float *slice, int tap, float (&sums)[8][8]) {
  constexpr int N = positions_of<M>();
  float w[8], x[8];
  load_eight(slice + tap * M + filter_place<M>(), 16, w);
  load_eight(slice + SLICE * M + tap * N + output_place<M>(), 32, x);
  UNROLLED_FOR (int k = 0; k < 8; k++)
    UNROLLED_FOR (int v = 0; v < 8; v++)
      sums[k][v] = fmaf(w[k], x[v], sums[k][v]);
}

template <int M>
DEVICE void store(const gemm_arguments &a, int64_t first, int32_t tile, int32_t group, const float (&sums)[8][8]) {
  const gconv_layer_problem &p = a.problem;
  const int64_t plane = (int64_t)p.out_height * p.out_width;
  const int32_t filters = p.filters / p.groups;
  UNROLLED_FOR (int half = 0; half < 2; half++) {
    const int64_t position = first + output_place<M>() + 32 * half, image = position / plane;
    const int64_t in_plane = position - image * plane;
    const bool whole = plane % 4 == 0 && position < a.positions;
    UNROLLED_FOR (int i = 0; i < 8; i++) {
      const int32_t in_group = tile * M + filter_place<M>() + i % 4 + i / 4 * 16, k = group * filters + in_group;
      if (in_group >= filters)
        continue;
      const float bias = __ldg(a.biases + k);
      float y[4];
      UNROLLED_FOR (int v = 0; v < 4; v++)
        y[v] = gconv_activate(&p, sums[i][half * 4 + v] + bias);
      float *to = a.out + (image * p.filters + k) * plane + in_plane;
      if (whole)
        *(float4 *)to = make_float4(y[0], y[1], y[2], y[3]);
      else
        UNROLLED_FOR (int v = 0; v < 4; v++)
          if (position + v < a.positions) {
            const int64_t other = (position + v) / plane;
            a.out[(other * p.filters + k) * plane + position + v - other * plane] = y[v];
          }
    }
  }
}

template <int M> __global__ void __launch_bounds__(THREADS, 2) multiply_layer(const __grid_constant__ gemm_arguments a) {
  constexpr int N = positions_of<M>(), EACH = N < THREADS ? 1 : N / THREADS;
  extern __shared__ float4 shared[];
  float *stages = (float *)shared;
  const int32_t tile = (int32_t)blockIdx.y % a.tiles, group = (int32_t)blockIdx.y / a.tiles;
  const int64_t first = (int64_t)blockIdx.x * N;
  const float *weights = a.weights + (int64_t)blockIdx.y * a.taps * M;
  anchor anchors[EACH];
  UNROLLED_FOR (int e = 0; e < EACH; e++)
    anchors[e] = anchor_of(a, first + threadIdx.x % N + e * THREADS, group);
  float sums[8][8] = {};
  for (int i = 0; i < STAGES - 1; i++) {
    stage<M>(a, weights, anchors, i * SLICE, stages + i * stage_floats<M>());
    commit_copies();
  }
  int now = 0, next = STAGES - 1;
  for (int32_t tap = 0; tap < a.taps; tap += SLICE) {
    await_copies<STAGES - 2>();
    __syncthreads();
    stage<M>(a, weights, anchors, tap + (STAGES - 1) * SLICE, stages + next * stage_floats<M>());
    commit_copies();
    const float *slice = stages + now * stage_floats<M>();
    if (tap + SLICE <= a.taps) {
      UNROLLED_FOR (int i = 0; i < SLICE; i++)
        multiply_tap<M>(slice, i, sums);
    } else {
      for (int i = 0; tap + i < a.taps; i++)
        multiply_tap<M>(slice, i, sums);
    }
    now = now + 1 == STAGES ? 0 : now + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
  }
  store<M>(a, first, tile, group, sums);
}

/* ---- Launching ---- */

/* Returns the filters of a tile. Few of them should only fill it up. */
int32_t tile_of(const gconv_layer_problem *problem) {
  const int32_t filters = problem->filters / problem->groups;
  return filters <= 32 ? 32 : filters <= 64 || (filters > 128 && filters <= 192) ? 64 : TALL;
}
int32_t tiles_of(const gconv_layer_problem *problem) {
  return (problem->filters / problem->groups - 1) / tile_of(problem) + 1;
}

size_t weight_floats(const gconv_layer_problem *problem) {
  return (size_t)problem->groups * (size_t)tiles_of(problem) * (size_t)gconv_layer_taps(problem) * (size_t)tile_of(problem);
}
size_t prepared_floats(const gconv_layer_problem *problem) {
  return weight_floats(problem) + 2 * (size_t)gconv_layer_taps(problem);
}

/* Writes weights by groups, tiles, taps, filters of a tile; then the offsets of the taps. */
gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const int64_t taps = gconv_layer_taps(problem), high = tile_of(problem), tiles = tiles_of(problem);
  const int64_t filters = problem->filters / problem->groups, count = (int64_t)weight_floats(problem);
  for (int64_t i = 0; i < count; i++) {
    const int64_t tap = i / high % taps, tile = i / high / taps, filter = tile % tiles * high + i % high;
    prepared[i] = filter < filters ? weights[(tile / tiles * filters + filter) * taps + tap] : 0;
  }
  offset *offsets = (offset *)(prepared + count);
  for (int64_t tap = 0; tap < taps; tap++) {
    const int64_t s = tap % problem->columns, r = tap / problem->columns % problem->rows,
                  c = tap / problem->columns / problem->rows;
    const int64_t down = r * problem->dilation_y, right = s * problem->dilation_x;
    offsets[tap] = {(int32_t)((c * problem->height + down) * problem->width + right), (int16_t)down, (int16_t)right};
  }
  return GCONV_OK;
}

template <int M> cudaError_t launch(const gemm_arguments &a, cudaStream_t stream) {
  const int bytes = STAGES * stage_floats<M>() * (int)sizeof(float);
  const cudaError_t error = cudaFuncSetAttribute(multiply_layer<M>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess)
    return error;
  const dim3 grid((unsigned)((a.positions - 1) / positions_of<M>() + 1), (unsigned)(a.tiles * a.problem.groups));
  multiply_layer<M><<<grid, THREADS, bytes, stream>>>(a);
  return cudaPeekAtLastError();
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  gemm_arguments a = {};
  a.problem = *problem;
  a.in = e->in, a.out = e->out;
  a.weights = gconv_layer_prepared(problem, e->weights);
  a.offsets = (const offset *)(a.weights + weight_floats(problem));
  a.biases = gconv_layer_biases(problem, e->weights);
  a.positions = (int64_t)problem->images * problem->out_height * problem->out_width;
  a.taps = (int32_t)gconv_layer_taps(problem), a.tiles = tiles_of(problem);
  const int32_t high = tile_of(problem);
  const cudaStream_t stream = (cudaStream_t)e->stream;
  CUDA_TRY(high == 32 ? launch<32>(a, stream) : high == 64 ? launch<64>(a, stream) : launch<TALL>(a, stream));
  return GCONV_OK;
}

const char *supports(const gconv_layer_problem *problem) {
  if (problem->math != GCONV_MATH_FP32)
    return "math other than fp32";
  const int64_t plane = (int64_t)problem->height * problem->width;
  const int64_t down = (int64_t)(problem->rows - 1) * problem->dilation_y,
                right = (int64_t)(problem->columns - 1) * problem->dilation_x;
  if (down > INT16_MAX || right > INT16_MAX)
    return "taps more than 32767 samples apart";
  if (gconv_layer_taps(problem) > INT32_MAX / 256 ||
      problem->channels / problem->groups * plane + down * problem->width > INT32_MAX)
    return "images of more than 2^31 samples";
  if ((int64_t)problem->groups * tiles_of(problem) > 65535)
    return "more than 65535 tiles of filters";
  return NULL;
}

/* Counts whole tiles, in blocks of which two fit on a multiprocessor, at the part of the peak that was measured. */
double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const double high = tile_of(problem), wide = THREADS * 64 / high;
  const double positions = (double)problem->images * problem->out_height * problem->out_width;
  const double blocks = ceil(positions / wide) * tiles_of(problem) * problem->groups;
  const double rounds =
      std::max(ceil(blocks / machine->units) / 2, 1.0); /* half a wave: one block alone is as fast as 0.6 */
  const double fma = rounds * 2 * machine->units * high * wide * (double)gconv_layer_taps(problem);
  const double bytes =
      4 * (positions * problem->filters + (double)problem->images * problem->channels * problem->height * problem->width);
  return std::max(fma / (0.42 * machine->fma_per_ms), bytes / (0.7 * machine->bytes_per_ms)) + machine->launch_ms;
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm = {
    .info = {"gemm", "cuda", "a product of matrices whose patches are never laid out", true},
    .supports = supports,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
};
