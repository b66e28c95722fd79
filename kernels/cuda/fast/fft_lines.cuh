/* SPDX-License-Identifier: MIT */
/*
 * fft's engine for larger filters: whole lines in shared memory, tiles of 512 to 4096 points a side in device memory. Three
 * kernels read and write each point once:
 *
 *     enter_lines    image -> rows forward -> points
 *     filter_lines   points -> columns forward, product, columns back -> points
 *     leave_lines    points -> rows back (only those that are stored) -> image
 *
 * A line of N = P * Q * 16 points is transformed in three passes, in place: P points that are Q * 16 apart, twist, Q points
 * that are 16 apart, twist, 16 neighbours. The way back has the opposite order.
 *
 * Speed: 48 bytes a point, which holds two samples. At the bandwidth of an H200 that is 175 G samples a second; 130 G were
 * reached. Samples at the edges of tiles, which are lost, are not counted.
 */
#pragma once

#include "fft_registers.cuh"
#include "fft_samples.cuh"

namespace {

/* ---- Shapes ---- */

enum { LINE_THREADS = 256, LINE_BLOCKS = 3 }; /* threads of a block, blocks of a multiprocessor */
enum { BLOCK_POINTS = 4096, GROUP = 17 };     /* points of a block; 16 points of a line and the gap after them */

/* A line in shared memory. Its gaps put points that are 16 apart into different banks, and neighbours, too. */
template <int P_, int Q_> struct line_shape {
  static constexpr int P = P_, Q = Q_, S = 16, SIZE = P * Q * S;
  static constexpr int LENGTH = SIZE / 16 * GROUP;
  static constexpr int PART = LENGTH / P; /* distance from the points of k1 to the points of k1 + 1 */
  static constexpr int ROW = LENGTH + 8;  /* distance from a row to the next, which begins half of the banks further on */
  static constexpr int ROWS = BLOCK_POINTS / SIZE;                            /* rows of a block at a time */
  static constexpr int COLUMNS = SIZE >= 2048 ? 4 : 8;                        /* columns of a block at a time, interleaved */
  static constexpr size_t ROWS_SHARED = ROWS * ROW * sizeof(float2);          /* 34 KB */
  static constexpr size_t COLUMNS_SHARED = COLUMNS * LENGTH * sizeof(float2); /* 34, 68, 68, 136 KB */
  static constexpr int COLUMN_THREADS = SIZE == 4096 ? 512 : 256;
  static constexpr int COLUMN_BLOCKS = SIZE == 4096 ? 1 : 3;
  static constexpr int FIRST_TWISTS = powers_of_twist(P) * Q * S;
  static constexpr int TWISTS = FIRST_TWISTS + powers_of_twist(Q) * S; /* twists of the first pass, then of the second */
};

struct line_arguments {
  tiling t;
  int32_t first_pair;     /* first pair of the batch */
  int32_t columns;        /* columns that lie together, those of a block of filter_lines() */
  const float2 *twists_y; /* twists for columns: exp(-2 pi i j 2^k / N) at k * Q * 16 + j, then twists of the second pass */
  const float2 *twists_x; /* twists for rows, in the same order */
  const float2 *spectrum; /* spectrum of the filter, in the order of columns_order() */
  int32_t k;              /* number of the filter */
  float2 *points, *filtered; /* results of the rows of the batch; results of its columns, maybe in the same place */
  float2 *combined;          /* combined responses of the batch */
  int32_t *spoilt;           /* for each pair of the batch: whether a sum is not finite */
};

/* A spectrum is stored in the order in which the threads of filter_lines() read it. Columns are stored as enter_lines()
 * leaves them: position 16 * m + i of a row is column i * (N / 16) + m. */
template <int COLUMNS> __device__ position columns_order(int64_t index, line_order y, line_order x) {
  int c = (int)(index % COLUMNS), sixteenth = size_of(x) / 16;
  index /= COLUMNS;
  int m = (int)(index % (size_of(y) / 16));
  index /= size_of(y) / 16;
  int i = (int)(index % 16), column = (int)(index / 16) * COLUMNS + c;
  return {16 * m + i, 16 * (column % sixteenth) + column / sixteenth};
}

/* ---- Passes; `pitch` is the distance between neighbouring points of a line ---- */

/* Multiplies points by their twists. The powers of a point's twist are at twists[i * step]. */
template <int SIGN, int N> DEVICE void twist(const float2 *twists, int step, float2 (&points)[N]) {
  float2 powers[powers_of_twist(N)];
  UNROLLED_FOR (int i = 0; i < powers_of_twist(N); i++)
    powers[i] = __ldg(twists + i * step);
  twist_points<SIGN>(powers, points);
}

/* Does the second pass, in place, on the points j, j + 16 .. of part k1. `task` is k1 * 16 + j. */
template <class Line, int PITCH, int SIGN> DEVICE void pass_middle(float2 *line, const float2 *twists, int task) {
  float2 points[Line::Q], *at = line + PITCH * (task / 16 * Line::PART + task % 16);
  const float2 *factors = twists + Line::FIRST_TWISTS + task % 16;
  UNROLLED_FOR (int i = 0; i < Line::Q; i++)
    points[i] = at[GROUP * PITCH * i];
  if (SIGN == BACKWARD)
    twist<SIGN>(factors, 16, points);
  transform_points<SIGN>(points);
  if (SIGN == FORWARD)
    twist<SIGN>(factors, 16, points);
  UNROLLED_FOR (int i = 0; i < Line::Q; i++)
    at[GROUP * PITCH * i] = points[i];
}

/* Does the second pass on all rows of a block. */
template <class Line, int SIGN> DEVICE void pass_middle_of_rows(float2 *lines, const float2 *twists) {
  ROLLED_FOR (int task = threadIdx.x; task < BLOCK_POINTS / Line::Q; task += LINE_THREADS) {
    int row = task / (Line::SIZE / Line::Q);
    pass_middle<Line, 1, SIGN>(lines + row * Line::ROW, twists, task % (Line::SIZE / Line::Q));
  }
}

/* ---- Points in memory ---- */

/* Where a thread stores its points. The columns of a block of filter_lines() lie together, row by row. A thread has every N
 * / 16th column of a row, from column m on. */
struct stored_place {
  int row, m;    /* row of the block, first column */
  int64_t first; /* place of column m; the thread's next column is N / 16 * height points further on */
};

/* Assigns places to threads so that neighbouring threads write neighbouring points: first across the columns that lie
 * together, then down the rows of the block. */
template <class Line> DEVICE stored_place place_of_thread(const line_arguments &a, int top) {
  const int c = threadIdx.x % a.columns, rest = threadIdx.x / a.columns, row = rest % Line::ROWS, block = rest / Line::ROWS;
  const int64_t tile = (int64_t)blockIdx.y * a.t.height * Line::SIZE;
  return {row, block * a.columns + c, tile + ((int64_t)block * a.t.height + top + row) * a.columns + c};
}

/* ---- Rows forward ---- */

/* gconv_border_index(), but without a call inside the image. */
DEVICE int any_index(gconv_border border, int i, int size) {
  return (unsigned)i < (unsigned)size ? i : far_index(border, i, size);
}

/* Loads the real parts (PART 0) or imaginary parts (PART 1) of the points x, x + STEP .. of row y. The tile may lie inside
 * the image or outside. */
template <class In, int STEP, int PART, int N>
DEVICE void load_anywhere(const arguments &a, const real_tile &tile, int y, int x, float2 (&points)[N]) {
  const gconv_problem &problem = a.problem;
  const int row = any_index(problem.border, tile.top + y, problem.height);
  const In *in = (const In *)(tile.in + max(row, 0) * a.in_row);
  UNROLLED_FOR (int i = 0; i < N; i++) {
    int column = any_index(problem.border, tile.left + x + STEP * i, problem.width);
    float level = (row | column) < 0 ? problem.border_level : level_at(in + (int64_t)max(column, 0) * problem.channels);
    (PART == 0 ? points[i].x : points[i].y) = level;
  }
}

template <class In, int STEP, int N>
DEVICE void load_line(const arguments &a, const tile_pair &pair, int width, int y, int x, float2 (&points)[N]) {
  if (lie_inside(a.problem, pair, y, 1, width))
    return load_inside<In, STEP>(a, pair, y, x, points);
  load_anywhere<In, STEP, 0>(a, pair.first, y, x, points);
  load_anywhere<In, STEP, 1>(a, pair.second, y, x, points);
}

/* Does the first pass on the points j, j + STEP .. of row y. */
template <class Line> DEVICE void enter_part(const line_arguments &a, const tile_pair &pair, int y, int j, float2 *line) {
  constexpr int STEP = Line::SIZE / Line::P;
  float2 points[Line::P], *at = line + j + j / 16;
  BY_TYPE(a.t.problem.in_type, In, load_line<In, STEP>(a.t, pair, Line::SIZE, y, j, points));
  transform_points<FORWARD>(points);
  twist<FORWARD>(a.twists_x + j, STEP, points);
  UNROLLED_FOR (int k = 0; k < Line::P; k++)
    at[k * Line::PART] = points[k];
}

/* Grid: x counts groups of ROWS rows, y pairs of tiles. */
template <class Line>
__global__ void __launch_bounds__(LINE_THREADS, LINE_BLOCKS) enter_lines(const __grid_constant__ line_arguments a) {
  extern __shared__ float2 lines[];
  __shared__ tile_pair pair;
  const int top = blockIdx.x * Line::ROWS;
  locate_pair(a.t, a.first_pair + blockIdx.y, &pair);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    a.spoilt[blockIdx.y] = false;
  __syncthreads();
  ROLLED_FOR (int task = threadIdx.x; task < BLOCK_POINTS / Line::P; task += LINE_THREADS) {
    int row = task / (Line::SIZE / Line::P), j = task % (Line::SIZE / Line::P);
    enter_part<Line>(a, pair, top + row, j, lines + row * Line::ROW);
  }
  __syncthreads();
  pass_middle_of_rows<Line, FORWARD>(lines, a.twists_x);
  __syncthreads();
  const stored_place place = place_of_thread<Line>(a, top);
  float2 points[16], *at = lines + place.row * Line::ROW + GROUP * place.m;
  UNROLLED_FOR (int i = 0; i < 16; i++)
    points[i] = at[i];
  transform_points<FORWARD>(points);
  float2 *to = a.points + place.first;
  UNROLLED_FOR (int i = 0; i < 16; i++)
    to[(int64_t)i * (Line::SIZE / 16) * a.t.height] = points[i];
}

/* ---- Columns ---- */

/* Does the last pass forward, the product, and the first pass back, on points 16 * m .. 16 * m + 15. */
template <int PITCH, int FACTORS> DEVICE void multiply_part(const float2 *spectrum, float2 *at) {
  float2 points[16], factors[16];
  UNROLLED_FOR (int i = 0; i < 16; i++)
    factors[i] = __ldg(spectrum + i * FACTORS);
  UNROLLED_FOR (int i = 0; i < 16; i++)
    points[i] = at[i * PITCH];
  transform_points<FORWARD>(points);
  UNROLLED_FOR (int i = 0; i < 16; i++)
    points[i] = times(points[i], factors[i]);
  transform_points<BACKWARD>(points);
  UNROLLED_FOR (int i = 0; i < 16; i++)
    at[i * PITCH] = points[i];
}

/* Grid: x counts pairs of tiles, which share a part of the spectrum in the L2 cache; y counts groups of COLUMNS columns. */
template <class Line>
__global__ void __launch_bounds__(Line::COLUMN_THREADS, Line::COLUMN_BLOCKS)
    filter_lines(const __grid_constant__ line_arguments a) {
  constexpr int C = Line::COLUMNS, STEP = Line::SIZE / Line::P, TASKS = Line::COLUMN_THREADS / C;
  extern __shared__ float2 lines[];
  const int c = threadIdx.x % C, first = threadIdx.x / C;
  const int64_t corner = ((int64_t)blockIdx.x * a.t.width + blockIdx.y * C) * Line::SIZE + c;
  ROLLED_FOR (int j = first; j < STEP; j += TASKS) {
    float2 points[Line::P], *at = lines + C * (j + j / 16) + c;
    const float2 *from = a.points + corner + j * C;
    UNROLLED_FOR (int i = 0; i < Line::P; i++)
      points[i] = from[i * STEP * C];
    transform_points<FORWARD>(points);
    twist<FORWARD>(a.twists_y + j, STEP, points);
    UNROLLED_FOR (int k = 0; k < Line::P; k++)
      at[C * k * Line::PART] = points[k];
  }
  __syncthreads();
  ROLLED_FOR (int task = first; task < Line::SIZE / Line::Q; task += TASKS)
    pass_middle<Line, C, FORWARD>(lines + c, a.twists_y, task);
  __syncthreads();
  const float2 *spectrum = a.spectrum + (int64_t)blockIdx.y * C * Line::SIZE + c;
  ROLLED_FOR (int m = first; m < Line::SIZE / 16; m += TASKS)
    multiply_part<C, C * Line::SIZE / 16>(spectrum + m * C, lines + GROUP * C * m + c);
  __syncthreads();
  ROLLED_FOR (int task = first; task < Line::SIZE / Line::Q; task += TASKS)
    pass_middle<Line, C, BACKWARD>(lines + c, a.twists_y, task);
  __syncthreads();
  ROLLED_FOR (int j = first; j < STEP; j += TASKS) {
    float2 points[Line::P], *at = lines + C * (j + j / 16) + c;
    UNROLLED_FOR (int k = 0; k < Line::P; k++)
      points[k] = at[C * k * Line::PART];
    twist<BACKWARD>(a.twists_y + j, STEP, points);
    transform_points<BACKWARD>(points);
    float2 *to = a.filtered + corner + j * C;
    UNROLLED_FOR (int i = 0; i < Line::P; i++)
      to[i * STEP * C] = points[i];
  }
}

/* ---- Rows back ---- */

/* Does the last pass on the points j, j + STEP .. of row y. Stores them in the image. */
template <class Line>
DEVICE void leave_part(const line_arguments &a, const tile_pair &pair, int y, int j, const float2 *line, float *check) {
  constexpr int STEP = Line::SIZE / Line::P;
  float2 points[Line::P];
  const float2 *at = line + j + j / 16;
  UNROLLED_FOR (int k = 0; k < Line::P; k++)
    points[k] = at[k * Line::PART];
  twist<BACKWARD>(a.twists_x + j, STEP, points);
  transform_points<BACKWARD>(points);
  check_sums(points, check);
  float2 *before = a.combined + ((int64_t)blockIdx.y * a.t.height + y) * Line::SIZE + j;
  finish_points(a.t, a.k, before, STEP, points);
  store_points<STEP>(a.t, a.k, pair, y, j - a.t.first_x, points);
}

/* Grid: x counts groups of ROWS rows that are stored, y pairs of tiles. */
template <class Line>
__global__ void __launch_bounds__(LINE_THREADS, LINE_BLOCKS) leave_lines(const __grid_constant__ line_arguments a) {
  extern __shared__ float2 lines[];
  __shared__ tile_pair pair;
  const int top = blockIdx.x * Line::ROWS;
  locate_pair(a.t, a.first_pair + blockIdx.y, &pair);
  {
    const stored_place place = place_of_thread<Line>(a, top);
    float2 points[16], *at = lines + place.row * Line::ROW + GROUP * place.m;
    const float2 *from = a.filtered + place.first;
    UNROLLED_FOR (int i = 0; i < 16; i++)
      points[i] = from[(int64_t)i * (Line::SIZE / 16) * a.t.height];
    transform_points<BACKWARD>(points);
    UNROLLED_FOR (int i = 0; i < 16; i++)
      at[i] = points[i];
  }
  __syncthreads();
  pass_middle_of_rows<Line, BACKWARD>(lines, a.twists_x);
  __syncthreads();
  float check = 0;
  ROLLED_FOR (int task = threadIdx.x; task < BLOCK_POINTS / Line::P; task += LINE_THREADS) {
    int row = task / (Line::SIZE / Line::P), j = task % (Line::SIZE / Line::P);
    leave_part<Line>(a, pair, top + row, j, lines + row * Line::ROW, &check);
  }
  if (!(check == 0))
    a.spoilt[blockIdx.y] = true;
}

/* ---- Sums that are not finite ---- */

/* Computes the outputs of spoilt pairs again. Grid: x counts rows, and blocks stride over further rows; y pairs of tiles. */
__global__ void __launch_bounds__(LINE_THREADS) mend_lines(const __grid_constant__ line_arguments a) {
  __shared__ tile_pair pair;
  if (!a.spoilt[blockIdx.y])
    return;
  locate_pair(a.t, a.first_pair + blockIdx.y, &pair);
  __syncthreads();
  for (int y = blockIdx.x; y < a.t.valid_y; y += gridDim.x)
    mend_row(a.t, pair, y, threadIdx.x, LINE_THREADS);
}

} // namespace
