/* SPDX-License-Identifier: MIT */
/*
 * Lines of fft in shared memory, and the passes that transform them, for tiles in device memory (fft_lines.cuh, and
 * layer/fft.cu).
 *
 * A line of N = P * Q * 16 points is transformed in three passes, in place: P points that are Q * 16 apart, twist, Q points
 * that are 16 apart, twist, 16 neighbours. The inverse transform has the opposite order.
 */
#pragma once

#include "fft_registers.cuh"

#include <bit>

namespace {

/* ---- Shapes ---- */

enum { GROUP = 17 }; /* 16 points of a line and the gap after them */

/* A line in shared memory. Its gaps put points that are 16 apart, and neighbours, into different banks. */
template <int P_, int Q_> struct line_shape {
  static constexpr int P = P_, Q = Q_, S = 16, SIZE = P * Q * S;
  static constexpr int LENGTH = SIZE / 16 * GROUP;
  static constexpr int PART = LENGTH / P; /* distance from the points of k1 to the points of k1 + 1 */
  static constexpr int ROW =
      (LENGTH + 7) / 16 * 16 + 8; /* from a row to the next, which begins half of the banks further on */
  static constexpr int ROWS = 4096 / (int)std::bit_floor((unsigned)SIZE); /* rows that a block transforms at a time */
  static constexpr int THREADS = ROWS * SIZE / 16;
  static constexpr int COLUMNS = SIZE >= 2048 ? 4 : 8; /* columns that a block transforms at a time, interleaved */
  static constexpr size_t ROWS_SHARED = ROWS * ROW * sizeof(float2);          /* 34 KB */
  static constexpr size_t COLUMNS_SHARED = COLUMNS * LENGTH * sizeof(float2); /* 34, 68, 68, 136 KB */
  static constexpr int COLUMN_THREADS = SIZE == 4096 ? 512 : 256;
  static constexpr int COLUMN_BLOCKS = SIZE == 4096 ? 1 : 3;
  static constexpr int FIRST_TWISTS = powers_of_twist(P) * Q * S;
  static constexpr int TWISTS = FIRST_TWISTS + powers_of_twist(Q) * S; /* twists of the first pass, then of the second */
};

/* A spectrum is stored in the order in which the threads that multiply columns read it. Columns have the order that the
 * transform of rows leaves: position 16 * m + i of a row is column i * (N / 16) + m. */
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
  ROLLED_FOR (int task = threadIdx.x; task < Line::ROWS * Line::SIZE / Line::Q; task += Line::THREADS) {
    int row = task / (Line::SIZE / Line::Q);
    pass_middle<Line, 1, SIGN>(lines + row * Line::ROW, twists, task % (Line::SIZE / Line::Q));
  }
}

/* ---- Points in memory ---- */

/* Where a thread stores its points. Columns that a block transforms lie together, row by row. A thread has every N / 16th
 * column of a row, from column m on. */
struct stored_place {
  int row, m;    /* row of the block, first column */
  int64_t first; /* place of column m; the thread's next column is N / 16 * height points further on */
};

/* Assigns places to threads so that neighbouring threads write neighbouring points: first across the `columns` columns that
 * lie together, then down the rows of the block. The tile has `height` rows and begins at point `tile`. The block's rows are
 * `step` rows apart, from row `top` on. */
template <class Line> DEVICE stored_place place_of_thread(int columns, int height, int64_t tile, int top, int step = 1) {
  const int c = threadIdx.x % columns, rest = threadIdx.x / columns, row = rest % Line::ROWS, block = rest / Line::ROWS;
  const int y = min(top + row * step, height - 1);
  return {row, block * columns + c, tile + ((int64_t)block * height + y) * columns + c};
}

/* Makes the twists of a line in the order of line_shape. */
inline void make_line_twists(line_order order, cudaStream_t stream, float2 *to) {
  int step = order.Q * order.S, powers = powers_of_twist(order.P);
  make_twists<<<powers, step, 0, stream>>>(size_of(order), 1, step, to);
  make_twists<<<powers_of_twist(order.Q), order.S, 0, stream>>>(step, 1, order.S, to + powers * step);
}

} // namespace
