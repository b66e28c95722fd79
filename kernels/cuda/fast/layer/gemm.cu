/* SPDX-License-Identifier: MIT */
/*
 * gemm: a layer as a product of matrices (implicit GEMM). The matrix of samples is never made.
 *
 * The sums are K x T weights by T x (N P Q) samples, with T = C/G R S taps in the order of the definition. A block makes a
 * tile of M filters by some outputs. It copies slices of 8 taps of both operands to shared memory, while it multiplies
 * earlier slices (cp.async; STAGES slices are under way). Samples are gathered one by one; a thread always gathers for the
 * same outputs. A tap adds an offset to their addresses, from a table that prepare() makes. The table goes through shared
 * memory, too. For samples outside the image, the copy writes zeros. A thread holds 8 x 8 sums in registers, so a tap costs
 * 64 multiply-adds and four loads of four numbers.
 *
 * A gathered sample takes some 8 instructions and serves M multiply-adds. So tiles are as high as there are filters: 32, 64
 * or 128. gemm is the fastest with at least 32 filters; with fewer filters, tiled and direct are faster.
 *
 * A sum in order cannot be split among threads. So blocks are small, to give all 132 multiprocessors the same number of
 * blocks: 128 threads, four blocks to a multiprocessor. Threads have 8 x 4 sums if this shares the work more evenly.
 *
 * Each sum adds its taps in the order of the definition, one after the other: the exact family.
 */
#include "../../core/copies.cuh"
#include "../../core/launch.cuh"
#include "device/cuda_error.h"
#include "kernels/activation.h"
#include "kernels/layer_algorithm.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace {

enum : int { THREADS = 128, SLICE = 8, STAGES = 4, TALL = 128, ALONG = 8 /* filters of a thread */ };

/* The offset of a tap: in the address, the row and the column of a sample. */
struct offset {
  int32_t samples, row, column, unused;
};
static_assert(sizeof(offset) == sizeof(int4), "");

struct gemm_arguments {
  gconv_layer_problem problem;
  const float *in, *weights, *biases;
  const offset *offsets;
  float *out;
  int64_t positions;     /* N P Q */
  int32_t slices, tiles; /* slices of taps; tiles of filters, of a group */
};

/* The place of the sample under the first tap of an output. */
struct anchor {
  const float *in;
  int32_t row, column;
};

/* A tile of M filters. A thread has 8 filters by V positions. */
template <int M, int V> __host__ __device__ constexpr int positions_of() {
  return THREADS * ALONG * V / M;
}
/* A stage has weights, samples, and the offsets of those taps that are staged while this stage is multiplied. */
template <int M, int V> __host__ __device__ constexpr int stage_floats() {
  return SLICE * (M + positions_of<M, V>() + 4);
}

/* Returns the anchor of an output in the channels of a group. Positions past the last get an anchor for which all taps are
 * outside the image. */
DEVICE anchor anchor_of(const gemm_arguments &a, int64_t position, int32_t group) {
  const gconv_layer_problem &p = a.problem;
  if (position >= a.positions)
    return {a.in, -(1 << 30), 0};
  const int64_t row = quotient(position, p.out_width), image = quotient(row, p.out_height);
  anchor at;
  at.row = (int32_t)(row - image * p.out_height) * p.stride_y - p.pad_top;
  at.column = (int32_t)(position - row * p.out_width) * p.stride_x - p.pad_left;
  const int64_t plane = image * p.channels + group * (p.channels / p.groups);
  at.in = a.in + (plane * p.height + at.row) * p.width + at.column;
  return at;
}

/* The addresses from which a thread copies next: weights, offsets, and samples of its outputs. */
template <int M, int V> struct source {
  static constexpr int N = positions_of<M, V>(), ROWS = N < THREADS ? THREADS / N : 1, EACH = N < THREADS ? 1 : N / THREADS;
  const float *weights;
  const offset *offsets;
  anchor anchors[EACH];
};

/* Starts to copy the next 8 taps of M filters, and the samples under them. `taps` has the offsets of these taps. */
template <int M, int V>
DEVICE void stage(const gconv_layer_problem &p, source<M, V> &from, const offset *taps, uint32_t to) {
  typedef source<M, V> own;
  int4 tap[SLICE / own::ROWS];
  UNROLLED_FOR (int i = 0; i < SLICE / own::ROWS; i++)
    tap[i] = *(const int4 *)(taps + threadIdx.x / own::N % own::ROWS + i * own::ROWS);
  if (threadIdx.x < SLICE)
    copy_async<16>(to + 4 * SLICE * (M + own::N) + 16 * threadIdx.x, from.offsets);
  UNROLLED_FOR (int i = 0; i < SLICE * M; i += 4 * THREADS)
    if (SLICE * M >= 4 * THREADS || threadIdx.x < SLICE * M / 4)
      copy_async<16>(to + 4 * i + 16 * threadIdx.x, from.weights + i);
  to += 4 * (SLICE * M + threadIdx.x);
  UNROLLED_FOR (int i = 0; i < SLICE / own::ROWS; i++)
    UNROLLED_FOR (int e = 0; e < own::EACH; e++) {
      const anchor &at = from.anchors[e];
      const bool inside =
          (uint32_t)(at.row + tap[i].y) < (uint32_t)p.height && (uint32_t)(at.column + tap[i].z) < (uint32_t)p.width;
      copy_async_or_zero<4>(to + 4 * (i * own::ROWS * own::N + e * THREADS), at.in + tap[i].x, inside);
    }
  from.weights += SLICE * M;
  from.offsets += SLICE;
}

/* The place of a thread in the tile. A warp has 32 filters by 8 V outputs. A thread has 4 neighbouring filters and the 4
 * that are 16 further on; of outputs, 4 neighbours and those that are 32 further on. Lanes 2 i and 2 i + 1 have the same
 * filters, lanes i and i ^ 2 the same outputs. So a load of four numbers takes two cycles instead of four. */
template <int M> DEVICE int filter_place() {
  return threadIdx.x / 32 % (M / 32) * 32 + threadIdx.x / 2 % 4 * 4;
}
template <int M, int V> DEVICE int output_place() {
  return threadIdx.x / 32 / (M / 32) * 8 * V + (threadIdx.x % 2 + threadIdx.x % 32 / 8 * 2) * 4;
}

template <int COUNT> DEVICE void load_fours(const float *from, int apart, float (&v)[COUNT]) {
  UNROLLED_FOR (int i = 0; i < COUNT; i += 4)
    load_four(from + i / 4 * apart, v + i);
}

/* Multiplies eight taps. Weights and samples of a tap are loaded while the previous tap is multiplied. */
template <int M, int V> DEVICE void multiply_slice(const float *slice, float (&sums)[ALONG][V]) {
  constexpr int N = positions_of<M, V>();
  const float *weights = slice + filter_place<M>(), *samples = slice + SLICE * M + output_place<M, V>();
  float w[2][ALONG], x[2][V];
  load_fours(weights, 16, w[0]);
  load_fours(samples, 32, x[0]);
  UNROLLED_FOR (int i = 0; i < SLICE; i++) {
    if (i + 1 < SLICE) {
      load_fours(weights + (i + 1) * M, 16, w[(i + 1) % 2]);
      load_fours(samples + (i + 1) * N, 32, x[(i + 1) % 2]);
    }
    UNROLLED_FOR (int k = 0; k < ALONG; k++)
      UNROLLED_FOR (int v = 0; v < V; v++)
        sums[k][v] = fmaf(w[i % 2][k], x[i % 2][v], sums[k][v]);
  }
}

/* Returns whether the activation is the identity or relu, and applies it without a branch for each number. */
DEVICE bool activate_simply(const gconv_layer_problem &p, float (&y)[4]) {
  if (p.activation != GCONV_ACTIVATION_NONE && p.activation != GCONV_ACTIVATION_RELU)
    return false;
  const bool relu = p.activation == GCONV_ACTIVATION_RELU;
  UNROLLED_FOR (int v = 0; v < 4; v++)
    y[v] = relu && y[v] < 0 ? 0.0f : y[v];
  return true;
}

template <int M, int V>
DEVICE void store(const gemm_arguments &a, int64_t first, int32_t tile, int32_t group, const float (&sums)[ALONG][V]) {
  const gconv_layer_problem &p = a.problem;
  const int64_t plane = (int64_t)p.out_height * p.out_width;
  const int32_t filters = p.filters / p.groups;
  UNROLLED_FOR (int part = 0; part < V / 4; part++) {
    const int64_t position = first + output_place<M, V>() + 32 * part, image = quotient(position, plane);
    const int64_t in_plane = position - image * plane;
    const bool whole = plane % 4 == 0 && position < a.positions;
    UNROLLED_FOR (int i = 0; i < ALONG; i++) {
      const int32_t in_group = tile * M + filter_place<M>() + i % 4 + i / 4 * 16, k = group * filters + in_group;
      if (in_group >= filters)
        continue;
      const float bias = __ldg(a.biases + k);
      float y[4];
      UNROLLED_FOR (int v = 0; v < 4; v++)
        y[v] = sums[i][part * 4 + v] + bias;
      if (!activate_simply(p, y))
        UNROLLED_FOR (int v = 0; v < 4; v++)
          y[v] = gconv_activate(&p, y[v]);
      float *to = a.out + (image * p.filters + k) * plane + in_plane;
      if (whole)
        *(float4 *)to = make_float4(y[0], y[1], y[2], y[3]);
      else
        UNROLLED_FOR (int v = 0; v < 4; v++)
          if (position + v < a.positions) {
            const int64_t other = quotient(position + v, plane);
            a.out[(other * p.filters + k) * plane + position + v - other * plane] = y[v];
          }
    }
  }
}

template <int M, int V>
__global__ void __launch_bounds__(THREADS, V == 8 ? 4 : 5) multiply_layer(const __grid_constant__ gemm_arguments a) {
  typedef source<M, V> own;
  extern __shared__ float4 shared[];
  const float *stages = (const float *)shared;
  const int32_t tile = (int32_t)blockIdx.y % a.tiles, group = (int32_t)blockIdx.y / a.tiles;
  const int64_t first = (int64_t)blockIdx.x * own::N;
  own from;
  from.weights = a.weights + (int64_t)blockIdx.y * a.slices * SLICE * M + 4 * threadIdx.x;
  from.offsets = a.offsets + (STAGES - 1) * SLICE + threadIdx.x;
  UNROLLED_FOR (int e = 0; e < own::EACH; e++)
    from.anchors[e] = anchor_of(a, first + threadIdx.x % own::N + e * THREADS, group);
  float sums[ALONG][V] = {};
  int now = 0, next = 0;
  for (; next < STAGES - 1; next++) {
    if (next < a.slices)
      stage<M, V>(a.problem, from, a.offsets + next * SLICE, shared_address(stages + next * stage_floats<M, V>()));
    commit_copies();
  }
  ROLLED_FOR (int32_t left = a.slices; left > 0; left--) {
    await_copies<STAGES - 2>();
    __syncthreads();
    const float *slice = stages + now * stage_floats<M, V>();
    if (left >= STAGES)
      stage<M, V>(a.problem, from, (const offset *)(slice + SLICE * (M + own::N)),
                  shared_address(stages + next * stage_floats<M, V>()));
    commit_copies();
    multiply_slice<M, V>(slice, sums);
    now = now + 1 == STAGES ? 0 : now + 1;
    next = next + 1 == STAGES ? 0 : next + 1;
  }
  store<M, V>(a, first, tile, group, sums);
}

/* ---- Launching ---- */

int64_t positions_of(const gconv_layer_problem *problem) {
  return (int64_t)problem->images * problem->out_height * problem->out_width;
}

/* Returns how many filters a tile has: 32, 64 or 128, so that few of them are padding. */
int32_t tile_of(const gconv_layer_problem *problem) {
  const int32_t filters = problem->filters / problem->groups;
  return filters <= 32 ? 32 : filters <= 64 || (filters > 128 && filters <= 192) ? 64 : TALL;
}
int32_t tiles_of(const gconv_layer_problem *problem) {
  return (problem->filters / problem->groups - 1) / tile_of(problem) + 1;
}

int64_t slices_of(const gconv_layer_problem *problem) {
  return divide_up(gconv_layer_taps(problem), SLICE);
}

size_t weight_floats(const gconv_layer_problem *problem) {
  return (size_t)((int64_t)problem->groups * tiles_of(problem) * slices_of(problem) * SLICE * tile_of(problem));
}
/* Returns the number of offsets, which include some slices after the last, since offsets are read ahead. */
int64_t offset_count(const gconv_layer_problem *problem) {
  return (slices_of(problem) + STAGES - 1) * SLICE;
}
size_t prepared_floats(const gconv_layer_problem *problem) {
  return weight_floats(problem) + (size_t)offset_count(problem) * sizeof(offset) / sizeof(float);
}

/* Writes weights by groups, tiles, taps, filters of a tile; then the offsets of the taps. Taps that only fill up the last
 * slice have weights of -0, and samples outside the image: adding -0 keeps the bits of any sum; 0 would change -0 to 0. */
gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const int64_t taps = gconv_layer_taps(problem), all = slices_of(problem) * SLICE, high = tile_of(problem);
  const int64_t filters = problem->filters / problem->groups, count = (int64_t)weight_floats(problem);
  const int64_t tiles = tiles_of(problem);
  for (int64_t i = 0; i < count; i++) {
    const int64_t tap = i / high % all, tile = i / high / all, filter = tile % tiles * high + i % high;
    prepared[i] = tap < taps && filter < filters ? weights[(tile / tiles * filters + filter) * taps + tap] : -0.0f;
  }
  offset *offsets = (offset *)(prepared + count);
  for (int64_t tap = 0; tap < offset_count(problem); tap++) {
    const int64_t s = tap % problem->columns, r = tap / problem->columns % problem->rows,
                  c = tap / problem->columns / problem->rows;
    const int64_t down = r * problem->dilation_y, right = s * problem->dilation_x;
    offsets[tap] = {0, -(1 << 30), 0, 0};
    if (tap < taps)
      offsets[tap] = {(int32_t)((c * problem->height + down) * problem->width + right), (int32_t)down, (int32_t)right, 0};
  }
  return GCONV_OK;
}

/* Returns how many blocks of 8 x V sums a thread the busiest multiprocessor has. */
int64_t most_blocks(const gconv_layer_problem &problem, int64_t units, int V) {
  const int64_t wide = THREADS * ALONG * V / tile_of(&problem);
  return divide_up(divide_up(positions_of(&problem), wide) * tiles_of(&problem) * problem.groups, units);
}

/* Returns whether threads have 8 x 8 sums. They have 8 x 4 if a multiprocessor would have one block only, or if smaller
 * tiles share the work more evenly. */
bool is_wide(const gconv_layer_problem &problem, int64_t units) {
  const int64_t blocks = most_blocks(problem, units, 8);
  return blocks > 1 && most_blocks(problem, units, 4) >= 2 * blocks;
}

template <int M, int V> gconv_status launch(const gemm_arguments &a, cudaStream_t stream) {
  const int bytes = STAGES * stage_floats<M, V>() * (int)sizeof(float);
  GCONV_TRY(allow_shared(multiply_layer<M, V>, bytes));
  const dim3 grid((unsigned)divide_up(a.positions, positions_of<M, V>()), (unsigned)(a.tiles * a.problem.groups));
  multiply_layer<M, V><<<grid, THREADS, bytes, stream>>>(a);
  return CUDA_STATUS(cudaPeekAtLastError());
}
template <int M> gconv_status launch(const gemm_arguments &a, cudaStream_t stream) {
  return is_wide(a.problem, multiprocessors()) ? launch<M, 8>(a, stream) : launch<M, 4>(a, stream);
}

gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  gemm_arguments a = {};
  a.problem = *problem;
  a.in = e->in, a.out = e->out;
  a.weights = gconv_layer_prepared(problem, e->weights);
  a.offsets = (const offset *)(a.weights + weight_floats(problem));
  a.biases = gconv_layer_biases(problem, e->weights);
  a.positions = positions_of(problem);
  a.slices = (int32_t)slices_of(problem), a.tiles = tiles_of(problem);
  const int32_t high = tile_of(problem);
  const cudaStream_t stream = (cudaStream_t)e->stream;
  return high == 32 ? launch<32>(a, stream) : high == 64 ? launch<64>(a, stream) : launch<TALL>(a, stream);
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

/* Counts the multiply-adds in the blocks of the busiest multiprocessor, which does them at a measured part of the peak. This
 * part is smaller if there are few blocks, or if tiles have few filters; and a block counts 40 taps more than it has. */
double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  const int64_t units = (int64_t)machine->units;
  const int V = is_wide(*problem, units) ? 8 : 4;
  const double blocks = (double)most_blocks(*problem, units, V), taps = (double)(slices_of(problem) * SLICE);
  const double part = (V == 8 ? 0.67 : blocks > 1 ? 0.55 : 0.33) * (tile_of(problem) == 32 ? 0.88 : 1);
  const double fma = blocks * units * THREADS * ALONG * V * (taps + 40);
  const double in = (double)problem->images * problem->channels * problem->height * problem->width;
  const double bytes = 4 * ((double)positions_of(problem) * problem->filters + in);
  return std::max(fma / (part * machine->fma_per_ms), bytes / (0.7 * machine->bytes_per_ms)) + machine->launch_ms;
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
