/* SPDX-License-Identifier: MIT */
/*
 * The matrix product of training. Forward, the gradient of inputs and the gradient of weights are all sums over l of
 * a(m, l) * b(n, l), with different operands a and b. Each sum is one chain of fmaf() over l from +0, as the exact family
 * requires. A block computes a tile of M x N sums. For 16 values of l at a time, it loads the numbers into shared memory,
 * and each thread adds to 4 x 4 sums.
 *
 * Operands and outputs (operands.cuh) are structs:
 *   begin(z)              selects product first + z, where z is on the third axis of the grid
 *   at(l), load(place, m) an operand with BY_L: the place for l, and the number there for m; operand b has n for m
 *   at(m), load(place, l) an operand without BY_L: the place for m, and the number there for l
 *   length(z)             the number of values of l; operand a only
 *   store(m, n, sum)      stores a sum; output only
 */
#pragma once

#include "../core/unroll.cuh"

#include <cuda_runtime_api.h>

namespace {

enum { STAGE = 16 }; /* values of l at a time */

/* Loads SIZE x STAGE numbers into tile[l][i]. Numbers outside of the operand become 0. No stored sum uses them. */
template <int SIZE, int THREADS, class Operand> struct loader {
  const Operand &from;
  const int64_t first, count; /* the first index of the tile; the number of all indices */
  typename Operand::place own = {};
  __device__ loader(const Operand &from, int64_t first, int64_t count) : from(from), first(first), count(count) {
    if (!Operand::BY_L && first + threadIdx.x % SIZE < count)
      own = from.at(first + threadIdx.x % SIZE);
  }
  __device__ void fill(float (*tile)[SIZE + 4], int64_t l, int64_t length) {
    if constexpr (Operand::BY_L) {
      const int lane = threadIdx.x % STAGE;
      const bool inside = l + lane < length;
      if (inside)
        own = from.at(l + lane);
      UNROLLED_FOR (int i = threadIdx.x / STAGE; i < SIZE; i += THREADS / STAGE)
        tile[lane][i] = inside && first + i < count ? from.load(own, first + i) : 0.0f;
    } else {
      const int lane = threadIdx.x % SIZE;
      const bool inside = first + lane < count;
      UNROLLED_FOR (int i = threadIdx.x / SIZE; i < STAGE; i += THREADS / SIZE)
        tile[i][lane] = inside && l + i < length ? from.load(own, l + i) : 0.0f;
    }
  }
};

template <int M, int N>
__device__ __forceinline__ void add_products(const float (*a)[M + 4], const float (*b)[N + 4], int l, int row, int column,
                                             float (&sums)[4][4]) {
  const float4 x = *(const float4 *)&a[l][row], y = *(const float4 *)&b[l][column];
  const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
  UNROLLED_FOR (int i = 0; i < 4; i++)
    UNROLLED_FOR (int j = 0; j < 4; j++)
      sums[i][j] = fmaf(xs[i], ys[j], sums[i][j]);
}

template <int M, int N, class A, class B, class Out>
__global__ void __launch_bounds__(M *N / 16) multiply(A a, B b, Out out, int64_t m_count, int64_t n_count) {
  constexpr int THREADS = M * N / 16;
  __shared__ __align__(16) float tile_a[STAGE][M + 4], tile_b[STAGE][N + 4];
  const int64_t first_m = (int64_t)blockIdx.y * M, first_n = (int64_t)blockIdx.x * N;
  const int row = threadIdx.x / (N / 4) * 4, column = threadIdx.x % (N / 4) * 4;
  a.begin(blockIdx.z);
  b.begin(blockIdx.z);
  out.begin(blockIdx.z);
  const int64_t length = a.length(blockIdx.z);
  loader<M, THREADS, A> load_a(a, first_m, m_count);
  loader<N, THREADS, B> load_b(b, first_n, n_count);
  float sums[4][4] = {};
  for (int64_t l = 0; l < length; l += STAGE) {
    load_a.fill(tile_a, l, length);
    load_b.fill(tile_b, l, length);
    __syncthreads();
    if (length - l >= STAGE) {
      UNROLLED_FOR (int i = 0; i < STAGE; i++)
        add_products<M, N>(tile_a, tile_b, i, row, column, sums);
    } else {
      for (int i = 0; i < length - l; i++)
        add_products<M, N>(tile_a, tile_b, i, row, column, sums);
    }
    __syncthreads();
  }
  UNROLLED_FOR (int i = 0; i < 4; i++)
    UNROLLED_FOR (int j = 0; j < 4; j++)
      if (first_m + row + i < m_count && first_n + column + j < n_count)
        out.store(first_m + row + i, first_n + column + j, sums[i][j]);
}

/* Starts `products` products of m_count x n_count sums. If m_count is at most 16, tiles have 16 rows, otherwise 64. */
template <class A, class B, class Out>
void start_products(const A &a, const B &b, const Out &out, int64_t m_count, int64_t n_count, int64_t products,
                    cudaStream_t stream) {
  const auto tiles = [](int64_t count, int64_t size) { return (unsigned)((count + size - 1) / size); };
  for (int64_t first = 0; first < products; first += 65535) { /* the most that an axis of a grid may have */
    const int64_t some = products - first < 65535 ? products - first : 65535;
    A part_a = a;
    B part_b = b;
    Out part = out;
    part_a.first = part_b.first = part.first = first;
    if (m_count <= 16)
      multiply<16, 64><<<dim3(tiles(n_count, 64), tiles(m_count, 16), (unsigned)some), 64, 0, stream>>>(part_a, part_b, part,
                                                                                                        m_count, n_count);
    else
      multiply<64, 64><<<dim3(tiles(n_count, 64), tiles(m_count, 64), (unsigned)some), 256, 0, stream>>>(
          part_a, part_b, part, m_count, n_count);
  }
}

} // namespace
