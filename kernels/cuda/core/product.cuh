/* SPDX-License-Identifier: MIT */
/*
 * A product of matrices in float32, batched, for the algorithms that write their operands to memory: im2col and winograd.
 *
 *             columns                      a block: 64 filters x 128 columns, by 128 threads with 8 x 8 sums each
 *           +----------+ B                 8 rows of both operands are in shared memory, in two buffers: while one is
 *     depth |          |                   multiplied, the next waits in registers
 *           +----------+
 *   A (depth x filters)     sums (filters x columns)
 *
 * Every sum is a chain of fused multiply-adds down the depth, from +0. If the depth is in the order of the definition, this
 * is the exact family.
 */
#pragma once

#include "weights.cuh"

namespace {

constexpr int TILE_FILTERS = 64, TILE_COLUMNS = 128, TILE_DEPTH = 8, TILE_THREADS = 128;

struct product {
  const float *a, *b;         /* aligned to 16 bytes */
  int64_t a_pitch, b_pitch;   /* floats of a row; multiples of TILE_FILTERS and TILE_COLUMNS */
  int64_t a_matrix, b_matrix; /* floats from one matrix of the batch to the next */
  int64_t depth;
  int64_t filters, columns; /* filters and columns of the sums that are stored */
};

/* A thread's share of 8 rows of both operands. Rows after the last are 0. */
struct product_slice {
  float4 a, b[2];
};

DEVICE void load_slice(product_slice *to, const float *a, const float *b, const product &m, int64_t first) {
  const int a_row = threadIdx.x / (TILE_FILTERS / 4), a_four = threadIdx.x % (TILE_FILTERS / 4);
  const int b_row = threadIdx.x / (TILE_COLUMNS / 4), b_four = threadIdx.x % (TILE_COLUMNS / 4);
  const float4 none = make_float4(0, 0, 0, 0);
  to->a = first + a_row < m.depth ? __ldg((const float4 *)(a + (first + a_row) * m.a_pitch) + a_four) : none;
  UNROLLED_FOR (int i = 0; i < 2; i++) {
    const int64_t row = first + b_row + 4 * i;
    to->b[i] = row < m.depth ? __ldg((const float4 *)(b + row * m.b_pitch) + b_four) : none;
  }
}

struct product_buffer {
  float4 a[TILE_DEPTH][TILE_FILTERS / 4], b[TILE_DEPTH][TILE_COLUMNS / 4];
};

DEVICE void keep_slice(product_buffer *to, const product_slice &from) {
  ((float4 *)to->a)[threadIdx.x] = from.a;
  ((float4 *)to->b)[threadIdx.x] = from.b[0];
  ((float4 *)to->b)[threadIdx.x + TILE_THREADS] = from.b[1];
}

/* A thread's 8 filters are two groups of four, 32 apart; its 8 columns are two groups of four, 64 apart. So the loads of a
 * warp use different banks. */
DEVICE void add_row(float (&sums)[8][8], const float4 *a, const float4 *b) {
  const float4 a0 = a[0], a1 = a[8], b0 = b[0], b1 = b[16];
  const float left[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
  const float right[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
  UNROLLED_FOR (int k = 0; k < 8; k++)
    UNROLLED_FOR (int n = 0; n < 8; n++)
      sums[k][n] = fmaf(left[k], right[n], sums[k][n]);
}

/* Grid: x counts tiles of columns, y tiles of filters, z matrices. store(matrix, filter, column, sum) stores a sum. */
template <class Store>
__global__ void __launch_bounds__(TILE_THREADS) multiply(const product m, const __grid_constant__ Store store) {
  __shared__ product_buffer buffers[2];
  const int a_four = threadIdx.x / 16, b_four = threadIdx.x % 16;
  const int64_t filter = (int64_t)blockIdx.y * TILE_FILTERS, column = (int64_t)blockIdx.x * TILE_COLUMNS;
  const float *a = m.a + blockIdx.z * m.a_matrix + filter, *b = m.b + blockIdx.z * m.b_matrix + column;
  float sums[8][8] = {};
  product_slice next;
  load_slice(&next, a, b, m, 0);
  int at = 0;
  for (int64_t first = 0; first < m.depth; first += TILE_DEPTH, at ^= 1) {
    keep_slice(&buffers[at], next);
    __syncthreads(); /* this slice is stored, and all threads have used the slice before */
    load_slice(&next, a, b, m, first + TILE_DEPTH);
    const product_buffer &here = buffers[at];
    if (m.depth - first >= TILE_DEPTH) {
      UNROLLED_FOR (int d = 0; d < TILE_DEPTH; d++)
        add_row(sums, &here.a[d][a_four], &here.b[d][b_four]);
    } else {
      for (int d = 0; d < (int)(m.depth - first); d++) /* not more: adding zeros would turn a sum of -0 into +0 */
        add_row(sums, &here.a[d][a_four], &here.b[d][b_four]);
    }
  }
  UNROLLED_FOR (int k = 0; k < 8; k++)
    UNROLLED_FOR (int n = 0; n < 8; n++) {
      const int64_t to_filter = filter + 4 * (a_four + k / 4 * 8) + k % 4,
                    to_column = column + 4 * (b_four + n / 4 * 16) + n % 4;
      if (to_filter < m.filters && to_column < m.columns)
        store(blockIdx.z, to_filter, to_column, sums[k][n]);
    }
}

template <class Store> void launch_product(const product &m, int64_t matrices, const Store &store, void *stream) {
  dim3 grid((unsigned)divide_up(m.columns, TILE_COLUMNS), (unsigned)divide_up(m.filters, TILE_FILTERS), (unsigned)matrices);
  multiply<<<grid, TILE_THREADS, 0, (cudaStream_t)stream>>>(m, store);
}

/* Returns the floats from one row to the next, for an operand with `columns` columns or filters. */
int64_t operand_pitch(int64_t columns) {
  return divide_up(columns, TILE_COLUMNS) * TILE_COLUMNS;
}

} // namespace
