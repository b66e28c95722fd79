/* SPDX-License-Identifier: MIT */
/*
 * fft's engine for larger filters: whole lines in shared memory, tiles of 512 to 4096 points a side in device memory. Three
 * kernels read and write each point once:
 *
 *     enter_lines    image -> rows forward -> points
 *     filter_lines   points -> columns forward, product, columns back -> points
 *     leave_lines    points -> rows back (only those that are stored) -> image
 *
 * Speed: the kernels load and store 48 bytes for each point, which holds two samples. At the bandwidth of an H200 that is
 * 175 G samples a second; 130 G were reached. Samples at the edges of tiles, which are lost, are not counted.
 */
#pragma once

#include "fft_passes.cuh"
#include "fft_samples.cuh"

namespace {

/* A block that transforms rows: its points (ROWS rows of line_shape), its threads, and blocks of a multiprocessor. */
enum { BLOCK_POINTS = 4096, LINE_THREADS = 256, LINE_BLOCKS = 3 };

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

/* ---- Rows forward ---- */

/* Returns the first point of the block's tile in the batch. */
template <class Line> DEVICE int64_t first_point(const line_arguments &a) {
  return (int64_t)blockIdx.y * a.t.height * Line::SIZE;
}

/* gconv_border_index(), which is called only outside the image. */
DEVICE int any_index(gconv_border border, int i, int size) {
  return (unsigned)i < (unsigned)size ? i : far_index(border, i, size);
}

/* Loads the real parts (PART 0) or imaginary parts (PART 1) of the points x, x + STEP .. of row y, inside the image or
 * not. */
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
  const stored_place place = place_of_thread<Line>(a.columns, a.t.height, first_point<Line>(a), top);
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
    const stored_place place = place_of_thread<Line>(a.columns, a.t.height, first_point<Line>(a), top);
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
