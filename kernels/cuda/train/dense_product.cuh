/* SPDX-License-Identifier: MIT */
/*
 * The matrix product of dense layers on tensor cores: sums over l of a(m, l) * b(n, l). A block computes a tile of M x N
 * sums, and each of its warps a part of WM x WN. Numbers are copied to shared memory in stages of DEPTH values of l, several
 * stages at a time (cp.async). Numbers outside the matrices become 0.
 *
 * A matrix in memory is either [m][l] or [l][m]. In shared memory, rows of stages have some floats more than they need, so
 * that lanes that read a fragment have no bank conflicts: 8 more in [m][l], 4 more in [l][m].
 *
 * The third axis of the grid cuts l into parts, each of which yields sums of its own.
 */
#pragma once

#include "../core/copies.cuh"
#include "dense_math.cuh"

namespace {

enum { DEPTH = 32 };

/* A matrix with `count` values of m, or of n. */
struct dense_matrix {
  const float *from;
  int64_t pitch; /* floats of a row in memory */
  int32_t count;
  bool fours; /* rows in memory begin at multiples of 16 bytes */
};

/* A stage of a factor: SIZE rows x DEPTH values of l. BY_L: the matrix is [l][m]. */
template <int SIZE, int THREADS, bool BY_L> struct dense_stage {
  enum { WIDE = BY_L ? SIZE : DEPTH, HIGH = BY_L ? DEPTH : SIZE, PITCH = WIDE + (BY_L ? 4 : 8) };
  enum { FLOATS = HIGH * PITCH };
  /* Starts to copy a stage, from value `l` of the sum on. Values from `end` on become 0. */
  static DEVICE void fill(float *stage, const dense_matrix &m, int32_t first, int32_t l, int32_t end) {
    if (m.fours)
      copy<4>(stage, m, first, l, end);
    else
      copy<1>(stage, m, first, l, end);
  }
  template <int EACH> static DEVICE void copy(float *stage, const dense_matrix &m, int32_t first, int32_t l, int32_t end) {
    constexpr int ACROSS = WIDE / EACH, STEP = THREADS / ACROSS, COUNT = (HIGH + STEP - 1) / STEP;
    static_assert(THREADS % ACROSS == 0 && (HIGH % STEP == 0 || COUNT == 1), "threads have the same columns in each round");
    const int y = (int)threadIdx.x / ACROSS, x = (int)threadIdx.x % ACROSS * EACH;
    const int32_t row = (BY_L ? l : first) + y, rows = BY_L ? end : m.count;
    const bool inside = (BY_L ? first : l) + x < (BY_L ? m.count : end);
    const float *from = m.from + row * m.pitch + (BY_L ? first : l) + x; /* outside the matrix, nothing is read */
    const uint32_t to = shared_address(stage + y * PITCH + x);
    UNROLLED_FOR (int j = 0; j < COUNT; j++)
      if (HIGH % STEP == 0 || y < HIGH)
        copy_async_or_zero<4 * EACH>(to + 4 * j * STEP * PITCH, from + j * STEP * m.pitch, inside && row + j * STEP < rows);
  }
  /* Reads the four values of l that a lane has of a row: see dense_math.cuh. */
  static DEVICE void read(const float *stage, int row, int l, float (&values)[4]) {
    UNROLLED_FOR (int half = 0; half < 2; half++) {
      if constexpr (BY_L) {
        values[2 * half] = stage[(l + 8 * half) * PITCH + row];
        values[2 * half + 1] = stage[(l + 8 * half + 1) * PITCH + row];
      } else {
        const float2 two = *(const float2 *)(stage + row * PITCH + l + 8 * half);
        values[2 * half] = two.x;
        values[2 * half + 1] = two.y;
      }
    }
  }
};

/* The shape of a block's tile, and how many stages there are. */
template <int TILE_M, int TILE_N, int WARP_M, int WARP_N, int COUNT> struct dense_shape {
  enum { M = TILE_M, N = TILE_N, WM = WARP_M, WN = WARP_N, ACROSS = N / WN, THREADS = M / WM * ACROSS * 32, STAGES = COUNT };
};

template <class Shape, bool A_BY_L, bool B_BY_L> constexpr int dense_shared_bytes() {
  return (int)sizeof(float) * (int)Shape::STAGES *
         ((int)dense_stage<Shape::M, Shape::THREADS, A_BY_L>::FLOATS +
          (int)dense_stage<Shape::N, Shape::THREADS, B_BY_L>::FLOATS);
}

/* Stores the sums of a lane's two rows, which are eight apart. The four lanes of a group have parts of them. */
template <class Out> DEVICE void store_sums_of_rows(const Out &out, int32_t row, int32_t rows, const float (&of_rows)[2]) {
  UNROLLED_FOR (int j = 0; j < 2; j++) {
    float sum = of_rows[j];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (blockIdx.x == 0 && threadIdx.x % 4 == 0 && row + 8 * j < rows)
      out.store_sum((int32_t)blockIdx.z, row + 8 * j, sum);
  }
}

/* Multiplies `length` values of l, `part` of them in each part. Out::SUMS: also computes the sums of a's rows. */
template <class Math, class Shape, bool A_BY_L, bool B_BY_L, class Out>
__global__ void __launch_bounds__(Shape::THREADS)
    multiply_dense(dense_matrix a, dense_matrix b, Out out, int32_t length, int32_t part) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr int ROWS = Shape::WM / 16, COLUMNS = Shape::WN / 8, STAGES = Shape::STAGES;
  using stage_a = dense_stage<Shape::M, Shape::THREADS, A_BY_L>;
  using stage_b = dense_stage<Shape::N, Shape::THREADS, B_BY_L>;
  extern __shared__ __align__(16) float stages[];
  float *const stages_b = stages + STAGES * stage_a::FLOATS;
  const int32_t first_m = (int32_t)blockIdx.y * Shape::M, first_n = (int32_t)blockIdx.x * Shape::N;
  const int32_t begin = (int32_t)blockIdx.z * part, end = min(length, begin + part);
  const int32_t count = (end - begin + DEPTH - 1) / DEPTH;
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, group = lane / 4, four = lane % 4;
  const int row = warp / Shape::ACROSS * Shape::WM + group, column = warp % Shape::ACROSS * Shape::WN + group;
  const bool sums_rows = Out::SUMS && blockIdx.x == 0 && warp % Shape::ACROSS == 0;
  float sums[COLUMNS][ROWS][4] = {}, of_rows[ROWS][2] = {};
  const auto start_stage = [&](int32_t i) {
    if (i < count) {
      stage_a::fill(stages + i % STAGES * stage_a::FLOATS, a, first_m, begin + i * DEPTH, end);
      stage_b::fill(stages_b + i % STAGES * stage_b::FLOATS, b, first_n, begin + i * DEPTH, end);
    }
    commit_copies();
  };
  UNROLLED_FOR (int32_t i = 0; i < STAGES - 1; i++)
    start_stage(i);
  for (int32_t i = 0; i < count; i++) {
    await_copies<STAGES - 2>();
    __syncthreads();
    start_stage(i + STAGES - 1);
    const float *tile_a = stages + i % STAGES * stage_a::FLOATS, *tile_b = stages_b + i % STAGES * stage_b::FLOATS;
    UNROLLED_FOR (int l = 0; l < DEPTH; l += 16) {
      typename Math::fragment_a of_a[ROWS];
      UNROLLED_FOR (int m = 0; m < ROWS; m++) {
        float values[2][4];
        stage_a::read(tile_a, row + 16 * m, l + 2 * four, values[0]);
        stage_a::read(tile_a, row + 16 * m + 8, l + 2 * four, values[1]);
        Math::numbers_a(values, of_a[m]);
        if (sums_rows)
          UNROLLED_FOR (int j = 0; j < 2; j++)
            of_rows[m][j] += (values[j][0] + values[j][1]) + (values[j][2] + values[j][3]);
      }
      UNROLLED_FOR (int n = 0; n < COLUMNS; n++) {
        float values[4];
        typename Math::fragment_b of_b;
        stage_b::read(tile_b, column + 8 * n, l + 2 * four, values);
        Math::numbers_b(values, of_b);
        Math::add(of_a, of_b, sums[n]);
      }
    }
  }
  UNROLLED_FOR (int n = 0; n < COLUMNS; n++)
    UNROLLED_FOR (int m = 0; m < ROWS; m++)
      UNROLLED_FOR (int j = 0; j < 2; j++) {
        const int32_t at_m = first_m + row + 16 * m + 8 * j, at_n = first_n + column - group + 8 * n + 2 * four;
        if (at_m < a.count && at_n < b.count)
          out.store((int32_t)blockIdx.z, at_m, at_n, sums[n][m][2 * j], sums[n][m][2 * j + 1], at_n + 1 < b.count,
                    out.need(at_m, at_n, at_n + 1 < b.count));
      }
  if constexpr (Out::SUMS)
    if (sums_rows)
      UNROLLED_FOR (int m = 0; m < ROWS; m++)
        store_sums_of_rows(out, first_m + row + 16 * m, a.count, of_rows[m]);
#endif
}

/* For few values of l: each thread computes two columns of FEW_ROWS rows, and keeps their numbers of b in registers. Sums
 * are exact chains of float32. */
enum { FEW = 4, FEW_ROWS = 16, FEW_THREADS = 128 };
template <bool B_BY_L, class Out>
__global__ void __launch_bounds__(FEW_THREADS) multiply_few(dense_matrix a, dense_matrix b, Out out, int32_t length) {
  const int32_t n = 2 * (int32_t)(blockIdx.x * FEW_THREADS + threadIdx.x), first = (int32_t)blockIdx.y * FEW_ROWS;
  const bool two = n + 1 < b.count;
  float columns[FEW][2];
  if (n >= b.count)
    return;
  UNROLLED_FOR (int l = 0; l < FEW; l++) {
    const float *from = b.from + (B_BY_L ? l * b.pitch + n : n * b.pitch + l);
    columns[l][0] = l < length ? from[0] : 0.0f;
    columns[l][1] = l < length && two ? from[B_BY_L ? 1 : b.pitch] : 0.0f;
  }
  UNROLLED_4_FOR (int32_t m = first; m < min(a.count, first + FEW_ROWS); m++) {
    float sums[2] = {};
    UNROLLED_FOR (int l = 0; l < FEW; l++)
      if (l < length) {
        const float x = a.from[m * a.pitch + l];
        sums[0] = fmaf(x, columns[l][0], sums[0]);
        sums[1] = fmaf(x, columns[l][1], sums[1]);
      }
    out.store(0, m, n, sums[0], sums[1], two, out.need(m, n, two));
  }
}

} // namespace
