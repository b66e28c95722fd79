/* SPDX-License-Identifier: MIT */
/*
 * fft's engine for smaller filters: one block transforms a pair of tiles, multiplies it and transforms it back, in one
 * kernel, without leaving its shared memory.
 *
 * A tile has N x N points, N = 8 * A. A line is transformed in two passes: A points that are 8 apart, twiddle factors, then
 * 8 neighbours. The inverse transform has the opposite order, so points are never reordered. Each row and each column
 * belongs to one warp. So the passes of a line need only a barrier of the warp. The block has a barrier between rows and
 * columns. "A" and "8" are passes of A and of 8 points:
 *
 *     memory -> rows: A 8  | barrier |  columns: A 8, product, 8 A  | barrier |  rows that are stored: 8 A -> memory
 *
 * A point holds two samples. It takes some 140 instructions and 12 accesses of 8 bytes to shared memory. On an H200, half of
 * the cycles issue an instruction.
 */
#pragma once

#include "fft_registers.cuh"
#include "fft_samples.cuh"

namespace {

/* ---- Shapes ---- */

/* For points of 8 bytes, shared memory has 16 banks, and serves half a warp at a time. The gaps put the 16 points that half
 * a warp reads or writes into different banks. Such points are: two neighbouring rows at 8 neighbouring columns; 16 points
 * that are 8 apart in rows; 8 columns of two rows that are 1 or 8 apart. One case has a conflict: at A = 20, 16 points that
 * are 8 apart may cross from one row to the next. */
enum { TWISTS = 6 }; /* room for the powers of a point's twist (5 at most); with it, 8 points use different banks */

/* Returns the least d >= x with d % 16 = 8, a distance to the other half of the banks. */
constexpr int half_of_banks_on(int x) {
  return (x + 7) / 16 * 16 + 8;
}

template <int A> struct tile_shape {
  static constexpr int SIZE = 8 * A;
  static constexpr int THREADS = 32 * A;
  static constexpr int GAP = A == 8 ? 8 : 16; /* columns between gaps */
  static constexpr int ROW = SIZE + SIZE / GAP;
  static constexpr int ODD_ROW = half_of_banks_on(ROW); /* distance from an even row to the next row */
  static constexpr int TWO_ROWS = ODD_ROW + ROW;        /* distance from an even row to the next even row */
  static constexpr int EIGHT_ROWS = half_of_banks_on(4 * TWO_ROWS);
  static constexpr int POINTS = EIGHT_ROWS * A;
  static constexpr size_t SHARED = (POINTS + 8 * TWISTS) * sizeof(float2) + 4 * SIZE * sizeof(int);
  static constexpr int BLOCKS = A == 8 ? 4 : 1; /* blocks of a multiprocessor */

  static DEVICE constexpr int across(int x) {
    return x + x / GAP;
  }
  static DEVICE constexpr int down(int y) {
    return y % 2 * ODD_ROW + y % 8 / 2 * TWO_ROWS + y / 8 * EIGHT_ROWS;
  }
};

struct tile_arguments {
  tiling t;
  const float2 *twists;  /* exp(-2 pi i j 2^k / N) at j * TWISTS + k, j < 8 */
  const float4 *spectra; /* spectra of the filters, divided by N * N; two points each, in the order of their use */
  float4 *kept;          /* with several filters: memory for the spectrum of each block's tile */
  float2 *combined;      /* with combined filters: memory for the combined values of each block's tile */
};

/* A spectrum is stored in the order in which the threads of multiply_columns() read it. */
template <int A> __device__ position tile_order(int64_t index, line_order, line_order) {
  int point = (int)index % 2, lane = (int)index / 2 % 32, i = (int)index / 64 % 4, m = (int)index / 256 % (A / 4);
  return {8 * (4 * m + lane / 8) + 2 * i + point, (int)index / (64 * A) * 8 + lane % 8};
}

/* ---- From memory ---- */

/* Where two tiles lie in the image. rows: the image's row for each row of a tile. columns: the sample in the image's row for
 * each column of a tile. GCONV_OUTSIDE: the row or column has the level of the border. */
template <int A> struct places { int rows[2][tile_shape<A>::SIZE], columns[2][tile_shape<A>::SIZE]; };

template <int A> __device__ void find_places(const gconv_problem &problem, const tile_pair &pair, places<A> &found) {
  constexpr int N = tile_shape<A>::SIZE;
  for (int i = threadIdx.x; i < 4 * N; i += tile_shape<A>::THREADS) {
    int at = i / 4;
    if (i & 2) {
      int top = i & 1 ? pair.second.top : pair.first.top;
      found.rows[i & 1][at] = (int)gconv_border_index(problem.border, (int64_t)top + at, problem.height);
    } else {
      int left = i & 1 ? pair.second.left : pair.first.left;
      int x = (int)gconv_border_index(problem.border, (int64_t)left + at, problem.width);
      found.columns[i & 1][at] = x == GCONV_OUTSIDE ? GCONV_OUTSIDE : x * problem.channels;
    }
  }
}

/* Loads the points x, x + 8 .. of row y. The tiles may lie inside the image or outside. */
template <class In, int A>
DEVICE void load_anywhere(const arguments &a, const tile_pair &pair, const places<A> &found, int y, int x,
                          float2 (&points)[A]) {
  const float level = a.problem.border_level;
  const int row0 = found.rows[0][y], row1 = found.rows[1][y];
  const In *in0 = (const In *)(pair.first.in + max(row0, 0) * a.in_row);
  const In *in1 = (const In *)(pair.second.in + max(row1, 0) * a.in_row);
  UNROLLED_FOR (int i = 0; i < A; i++) {
    int column0 = found.columns[0][x + 8 * i], column1 = found.columns[1][x + 8 * i];
    points[i].x = (row0 | column0) < 0 ? level : level_at(in0 + column0);
    points[i].y = (row1 | column1) < 0 ? level : level_at(in1 + column1);
  }
}

/* ---- Passes over shared memory ---- */

/* Twists the A points j, j + 8 .. of a column or row. */
template <int A, int SIGN> DEVICE void twist(const float2 *twists, int j, float2 (&points)[A]) {
  const float4 *from = (const float4 *)(twists + j * TWISTS);
  float2 powers[powers_of_twist(A)];
  UNROLLED_FOR (int i = 0; i < powers_of_twist(A); i += 2) {
    float4 two = from[i / 2];
    powers[i] = make_float2(two.x, two.y);
    if (i + 1 < powers_of_twist(A))
      powers[i + 1] = make_float2(two.z, two.w);
  }
  twist_points<SIGN>(powers, points);
}

/* Does the second pass forward, or the first pass back, for four rows from `top` on: 8 neighbouring points at a time. */
template <int A, int SIGN> DEVICE void pass_rows(float2 *tile, int top, int lane) {
  using shape = tile_shape<A>;
  UNROLLED_FOR (int task = lane; task < 4 * A; task += 32) {
    float2 *at = tile + shape::down(top + task / A) + shape::across(8 * (task % A)), points[8];
    UNROLLED_FOR (int i = 0; i < 8; i++)
      points[i] = at[i];
    transform_points<SIGN>(points);
    UNROLLED_FOR (int i = 0; i < 8; i++)
      at[i] = points[i];
  }
}

/* Loads four rows from `top` on, and transforms them. */
template <int A>
DEVICE void enter_rows(const arguments &a, const tile_pair &pair, bool inside, const places<A> &found, const float2 *twists,
                       int top, int lane, float2 *tile) {
  using shape = tile_shape<A>;
  const int j = lane % 8, y = top + lane / 8;
  float2 points[A], *at = tile + shape::down(y) + j;
  BY_TYPE(a.problem.in_type, In,
          inside ? load_inside<In, 8>(a, pair, y, j, points) : load_anywhere<In>(a, pair, found, y, j, points));
  transform_points<FORWARD>(points);
  twist<A, FORWARD>(twists, j, points);
  UNROLLED_FOR (int k = 0; k < A; k++)
    at[shape::across(8 * k)] = points[k];
  __syncwarp();
  pass_rows<A, FORWARD>(tile, top, lane);
}

/* Does the first pass forward, or the last pass back, for 8 columns: A points that are 8 rows apart. */
template <int A, int SIGN> DEVICE void pass_columns(const float2 *twists, float2 *columns, int lane) {
  using shape = tile_shape<A>;
  ROLLED_FOR (int j = lane / 8; j < 8; j += 4) {
    float2 points[A], *at = columns + lane % 8 + shape::down(j);
    UNROLLED_FOR (int k = 0; k < A; k++)
      points[k] = at[k * shape::EIGHT_ROWS];
    if (SIGN == BACKWARD)
      twist<A, BACKWARD>(twists, j, points);
    transform_points<SIGN>(points);
    if (SIGN == FORWARD)
      twist<A, FORWARD>(twists, j, points);
    UNROLLED_FOR (int k = 0; k < A; k++)
      at[k * shape::EIGHT_ROWS] = points[k];
  }
}

/* Does the second pass of columns, their product with the spectrum of filter k, and the first inverse pass. where: the
 * offset of the lane's values in the spectra. The first of several filters stores the transformed tile for the others. */
template <int A> DEVICE void multiply_columns(const tile_arguments &a, int k, int where, float2 *columns, int lane) {
  using shape = tile_shape<A>;
  const float4 *spectrum = a.spectra + (int64_t)k * (shape::SIZE * shape::SIZE / 2) + where;
  float4 *kept = a.kept + (int64_t)blockIdx.x * (shape::SIZE * shape::SIZE / 2) + where;
  ROLLED_FOR (int m = lane / 8; m < A; m += 4, spectrum += 4 * 32, kept += 4 * 32) {
    float2 points[8], *at = columns + lane % 8 + m * shape::EIGHT_ROWS;
    float4 factors[4];
    UNROLLED_FOR (int i = 0; i < 4; i++)
      factors[i] = __ldg(spectrum + 32 * i);
    if (k == 0) {
      UNROLLED_FOR (int i = 0; i < 8; i++)
        points[i] = at[shape::down(i)];
      transform_points<FORWARD>(points);
      if (a.t.problem.filters > 1)
        UNROLLED_FOR (int i = 0; i < 4; i++)
          kept[32 * i] = make_float4(points[2 * i].x, points[2 * i].y, points[2 * i + 1].x, points[2 * i + 1].y);
    } else {
      UNROLLED_FOR (int i = 0; i < 4; i++) {
        float4 two = kept[32 * i];
        points[2 * i] = make_float2(two.x, two.y);
        points[2 * i + 1] = make_float2(two.z, two.w);
      }
    }
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      points[2 * i] = times(points[2 * i], make_float2(factors[i].x, factors[i].y));
      points[2 * i + 1] = times(points[2 * i + 1], make_float2(factors[i].z, factors[i].w));
    }
    transform_points<BACKWARD>(points);
    UNROLLED_FOR (int i = 0; i < 8; i++)
      at[shape::down(i)] = points[i];
  }
}

/* Transforms 8 columns (for the first filter), multiplies them by the spectrum of filter k, and transforms them back. */
template <int A>
DEVICE void filter_columns(const tile_arguments &a, int k, const float2 *twists, int warp, int lane, float2 *tile) {
  float2 *columns = tile + tile_shape<A>::across(8 * warp);
  if (k == 0)
    pass_columns<A, FORWARD>(twists, columns, lane);
  __syncwarp();
  multiply_columns<A>(a, k, warp * (A * 8 * 8 / 2) + lane, columns, lane);
  __syncwarp();
  pass_columns<A, BACKWARD>(twists, columns, lane);
}

/* Transforms four rows from `top` on back, and stores them. */
template <int A>
DEVICE void leave_rows(const tile_arguments &a, int k, const tile_pair &pair, const float2 *twists, int top, int lane,
                       float2 *tile, float *check) {
  using shape = tile_shape<A>;
  pass_rows<A, BACKWARD>(tile, top, lane);
  __syncwarp();
  const int j = lane % 8, y = top + lane / 8;
  float2 points[A], *at = tile + shape::down(y) + j;
  UNROLLED_FOR (int i = 0; i < A; i++)
    points[i] = at[shape::across(8 * i)];
  twist<A, BACKWARD>(twists, j, points);
  transform_points<BACKWARD>(points);
  check_sums(points, check);
  float2 *before = a.combined + ((int64_t)blockIdx.x * (2 * A) + top / 4) * (A * 32) + lane;
  finish_points(a.t, k, before, 32, points);
  store_points<8>(a.t, k, pair, y, j - a.t.first_x, points);
}

/* A thread computes its outputs again, by the definition. Inlined, this would take registers from the kernel. */
template <int A> __device__ __noinline__ void mend_rows(const tiling &t, const tile_pair &pair) {
  for (int y = threadIdx.x / 8; y < t.valid_y; y += 4 * A)
    mend_row(t, pair, y, (int)threadIdx.x % 8 - t.first_x, 8);
}

/* ---- The kernel ---- */

/* A block processes pairs of tiles, one after the other. Warp w has rows 4 * w .. 4 * w + 3, the four rows that are N / 2
 * further down, and columns 8 * w .. 8 * w + 7. So a warp can store its rows and load rows of the next tiles without a
 * barrier, except at the border of the image. */
template <int A>
__global__ void __launch_bounds__(tile_shape<A>::THREADS, tile_shape<A>::BLOCKS)
    convolve_tiles(const __grid_constant__ tile_arguments a) {
  using shape = tile_shape<A>;
  extern __shared__ float4 shared[];
  float2 *tile = (float2 *)shared, *twists = tile + shape::POINTS;
  places<A> &found = *(places<A> *)(twists + 8 * TWISTS);
  __shared__ tile_pair pairs[2]; /* the current pair and the next, alternately */
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < 8 * TWISTS; i += shape::THREADS)
    twists[i] = a.twists[i];
  locate_pair(a.t, blockIdx.x, &pairs[0]);
  __syncthreads();
  for (int index = blockIdx.x, turn = 0; 2 * index < a.t.tiles; index += gridDim.x, turn ^= 1) {
    const tile_pair &pair = pairs[turn];
    const bool inside = lie_inside(a.t.problem, pair, 0, shape::SIZE, shape::SIZE);
    if (!inside) {
      find_places<A>(a.t.problem, pair, found);
      __syncthreads();
    }
    for (int top = 4 * warp; top < shape::SIZE; top += 4 * A)
      enter_rows<A>(a.t, pair, inside, found, twists, top, lane, tile);
    __syncthreads();
    locate_pair(a.t, index + gridDim.x, &pairs[turn ^ 1]);
    float check = 0;
    for (int k = 0; k < a.t.problem.filters; k++) {
      filter_columns<A>(a, k, twists, warp, lane, tile);
      __syncthreads();
      for (int top = 4 * warp; top < a.t.valid_y; top += 4 * A)
        leave_rows<A>(a, k, pair, twists, top, lane, tile, &check);
      if (k + 1 < a.t.problem.filters)
        __syncthreads();
    }
    if (!(check == 0) && a.t.problem.in_type == GCONV_F32)
      mend_rows<A>(a.t, pair);
    __syncwarp();
  }
}

} // namespace
