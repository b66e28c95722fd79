/* SPDX-License-Identifier: MIT */
/*
 * The kernels of fft for layers. Tiles are in device memory, lines of them in shared memory (../fft_passes.cuh):
 *
 *     enter_rows     images -> rows forward -> points of C channels
 *     sum_columns    points -> columns forward, products summed over the channels, columns back -> sums of K filters
 *     leave_rows     sums -> rows back (only those that are stored), bias and activation -> outputs
 *
 * Two tiles of an image share points: a sample of one is the real part of a point, a sample of the other its imaginary part.
 * Taps are real, so the tiles do not mix, except by rounding.
 */
#pragma once

#include "../../core/defined.cuh"
#include "../../core/weights.cuh"
#include "../fft_passes.cuh"

#include <algorithm>

namespace {

/* How an image is cut into tiles. */
struct cutting {
  int32_t height, width;    /* of a tile, in points */
  int32_t valid_y, valid_x; /* rows and columns of a tile that become outputs, before striding; multiples of the strides */
  int32_t tiles_y, tiles_x;
  int32_t tiles, pairs; /* of an image */
  int32_t columns;      /* columns that lie together: those of a block of sum_columns() */
};

struct layer_arguments {
  gconv_layer_problem problem;
  cutting c;
  int64_t first_pair; /* of the batch, in the pairs of all images */
  int32_t count;      /* pairs of the batch */
  int32_t splits;     /* blocks of sum_columns() that share the filters of a group */
  int32_t sets;       /* channels of a pair in shared memory in sum_columns(), and a place for sums */
  const float *in, *weights, *biases;
  const float *scales; /* factor of the sums of each filter */
  float *out;
  const float2 *twists_y, *twists_x; /* of columns, which run along y, and of rows */
  const float2 *spectra;             /* of each filter and channel, in the order of columns_order() */
  float2 *points, *sums;             /* of each pair of the batch: points of C channels, sums of K filters */
};

/* A tile: its image; the place of its first point in the image; its first output. `there` is false for the last tile's
 * partner if the number of tiles is odd. */
struct layer_tile {
  int32_t top, left, p, q;
  bool there;
};

struct layer_pair {
  int64_t image;
  layer_tile tiles[2];
};

/* Two threads of the block find the places of the tiles of a pair of the batch, and put them into shared memory. */
DEVICE void locate_pair(const layer_arguments &a, unsigned pair, layer_pair *shared) {
  if (threadIdx.x > 1)
    return;
  const int64_t number = a.first_pair + pair, image = quotient(number, a.c.pairs);
  const int tile = 2 * (int)(number - image * a.c.pairs) + (int)threadIdx.x, row = tile / a.c.tiles_x,
            column = tile - row * a.c.tiles_x;
  shared->image = image;
  shared->tiles[threadIdx.x] = {row * a.c.valid_y - a.problem.pad_top, column * a.c.valid_x - a.problem.pad_left,
                                row * (a.c.valid_y / a.problem.stride_y), column * (a.c.valid_x / a.problem.stride_x),
                                tile < a.c.tiles};
}

/* ---- Rows forward ---- */

/* Rows of a block of enter_rows() or leave_rows(). */
template <int P, int Q> struct row_shape : line_shape<P, Q> {
  using line = line_shape<P, Q>;
  static constexpr int THREADS = line::THREADS;
  static constexpr int ENTER_BLOCKS = 1280 / THREADS, LEAVE_BLOCKS = 800 / THREADS; /* of a multiprocessor, at least */
};

/* Loads one tile's samples of the points x, x + STEP .. of row y. */
template <int STEP, int N>
DEVICE void load_samples(const gconv_layer_problem &problem, const float *plane, const layer_tile &tile, int y, int x,
                         float (&samples)[N]) {
  const int row = tile.top + y;
  const bool inside = tile.there && (unsigned)row < (unsigned)problem.height;
  const float *from = plane + (int64_t)(inside ? row : 0) * problem.width;
  UNROLLED_FOR (int i = 0; i < N; i++) {
    const int column = tile.left + x + STEP * i;
    samples[i] = inside && (unsigned)column < (unsigned)problem.width ? __ldg(from + column) : 0.0f;
  }
}

/* Grid: x counts groups of ROWS rows, y channels, z pairs of the batch. */
template <class Line>
__global__ void __launch_bounds__(Line::THREADS, Line::ENTER_BLOCKS) enter_rows(const __grid_constant__ layer_arguments a) {
  constexpr int P = Line::P, STEP = Line::SIZE / P;
  extern __shared__ float2 lines[];
  __shared__ layer_pair pair;
  const int top = blockIdx.x * Line::ROWS;
  locate_pair(a, blockIdx.z, &pair);
  __syncthreads();
  const float *plane = a.in + (pair.image * a.problem.channels + blockIdx.y) * gconv_layer_plane(&a.problem);
  UNROLLED_2_FOR (int task = threadIdx.x; task < Line::ROWS * STEP; task += Line::THREADS) {
    const int row = task / STEP, j = task % STEP;
    float2 points[P], *at = lines + row * Line::ROW + j + j / 16;
    float first[P], second[P];
    load_samples<STEP>(a.problem, plane, pair.tiles[0], top + row, j, first);
    load_samples<STEP>(a.problem, plane, pair.tiles[1], top + row, j, second);
    UNROLLED_FOR (int i = 0; i < P; i++)
      points[i] = make_float2(first[i], second[i]);
    transform_points<FORWARD>(points);
    twist<FORWARD>(a.twists_x + j, STEP, points);
    UNROLLED_FOR (int k = 0; k < P; k++)
      at[k * Line::PART] = points[k];
  }
  __syncthreads();
  pass_middle_of_rows<Line, FORWARD>(lines, a.twists_x);
  __syncthreads();
  const int64_t tile = ((int64_t)blockIdx.z * a.problem.channels + blockIdx.y) * a.c.height * Line::SIZE;
  const stored_place place = place_of_thread<Line>(a.c.columns, a.c.height, tile, top);
  float2 points[16], *at = lines + place.row * Line::ROW + GROUP * place.m;
  UNROLLED_FOR (int i = 0; i < 16; i++)
    points[i] = at[i];
  transform_points<FORWARD>(points);
  float2 *to = a.points + place.first;
  UNROLLED_FOR (int i = 0; i < 16; i++)
    to[(int64_t)i * (Line::SIZE / 16) * a.c.height] = points[i];
}

/* ---- Columns ---- */

/* A block of sum_columns() has the same columns of some pairs of tiles: it loads the spectra of filters once for all of them
 * from the L2 cache. After two passes, a thread has 16 neighbouring points of a column. */
template <int P, int Q> struct column_shape : line_shape<P, Q> {
  using line = line_shape<P, Q>;
  static constexpr int COLUMNS = 4, PAIRS = std::max(640 / line::SIZE, 1);
  static constexpr int SET = COLUMNS * line::LENGTH; /* points of a channel of a pair in shared memory */
  static constexpr int TASKS = line::SIZE / 16;      /* threads of a column */
  static constexpr int THREADS = PAIRS * COLUMNS * TASKS;
  static constexpr int BLOCKS = 640 / THREADS; /* blocks of a multiprocessor, at least, of those that keep no channels */
};

/* The place of a thread in its block: its pair, its column, and its number among the threads of the column. */
template <class Columns> struct column_thread {
  int pair, c, first;
  DEVICE column_thread()
      : pair((int)threadIdx.x / (Columns::COLUMNS * Columns::TASKS)), c((int)threadIdx.x % Columns::COLUMNS),
        first((int)threadIdx.x / Columns::COLUMNS % Columns::TASKS) {}
};

/* Does the first two passes of a channel's columns. */
template <class Columns> DEVICE void enter_columns(const layer_arguments &a, const float2 *points, float2 *set) {
  constexpr int C = Columns::COLUMNS, P = Columns::P, STEP = Columns::SIZE / P, TASKS = Columns::TASKS;
  const auto [pair, c, first] = column_thread<Columns>();
  UNROLLED_2_FOR (int j = first; j < STEP; j += TASKS) {
    float2 part[P], *at = set + C * (j + j / 16) + c;
    UNROLLED_FOR (int i = 0; i < P; i++)
      part[i] = points[(i * STEP + j) * C + c];
    transform_points<FORWARD>(part);
    twist<FORWARD>(a.twists_y + j, STEP, part);
    UNROLLED_FOR (int k = 0; k < P; k++)
      at[C * k * Columns::PART] = part[k];
  }
  __syncthreads();
  ROLLED_FOR (int task = first; task < Columns::SIZE / Columns::Q; task += TASKS)
    pass_middle<Columns, C, FORWARD>(set + c, a.twists_y, task);
  __syncthreads();
}

/* Does the last two passes of sums, and stores them. */
template <class Columns> DEVICE void leave_columns(const layer_arguments &a, float2 *set, float2 *sums) {
  constexpr int C = Columns::COLUMNS, P = Columns::P, STEP = Columns::SIZE / P, TASKS = Columns::TASKS;
  const auto [pair, c, first] = column_thread<Columns>();
  __syncthreads();
  ROLLED_FOR (int task = first; task < Columns::SIZE / Columns::Q; task += TASKS)
    pass_middle<Columns, C, BACKWARD>(set + c, a.twists_y, task);
  __syncthreads();
  UNROLLED_2_FOR (int j = first; j < STEP; j += TASKS) {
    float2 part[P], *at = set + C * (j + j / 16) + c;
    UNROLLED_FOR (int k = 0; k < P; k++)
      part[k] = at[C * k * Columns::PART];
    twist<BACKWARD>(a.twists_y + j, STEP, part);
    transform_points<BACKWARD>(part);
    UNROLLED_FOR (int i = 0; i < P; i++)
      sums[(i * STEP + j) * C + c] = part[i];
  }
}

/* Does the last pass forward on 16 points that are STEP points apart. */
template <int STEP> DEVICE void load_transformed(const float2 *at, float2 (&points)[16]) {
  UNROLLED_FOR (int i = 0; i < 16; i++)
    points[i] = at[i * STEP];
  transform_points<FORWARD>(points);
}

DEVICE void add_product(float2 &sum, float2 a, float2 b) {
  sum = make_float2(fmaf(a.x, b.x, fmaf(-a.y, b.y, sum.x)), fmaf(a.x, b.y, fmaf(a.y, b.x, sum.y)));
}

/* A block has some columns of PAIRS pairs, and some filters of a group: all of them if a.splits is 1. KEEPS: the transformed
 * points of all channels stay in shared memory, for all filters of the block. Otherwise there is one channel at a time,
 * which is transformed again for each filter. If fewer than PAIRS pairs are left, the last one is computed several times.
 * Grid: x counts pairs of the batch, which share spectra in the L2 cache; y groups of columns; z groups and splits. */
template <class Columns, bool KEEPS>
__global__ void __launch_bounds__(Columns::THREADS, KEEPS ? 512 / Columns::THREADS : Columns::BLOCKS)
    sum_columns(const __grid_constant__ layer_arguments a) {
  constexpr int C = Columns::COLUMNS, SIZE = Columns::SIZE, SET = Columns::SET, STEP = C * Columns::TASKS;
  extern __shared__ float2 shared[];
  const auto [part_of_pair, c, first] = column_thread<Columns>();
  const gconv_layer_problem &problem = a.problem;
  const int group = blockIdx.z / a.splits, split = blockIdx.z - group * a.splits;
  const int channels = problem.channels / problem.groups, filters = problem.filters / problem.groups;
  const int64_t tile = (int64_t)SIZE * a.c.width, corner = (int64_t)blockIdx.y * C * SIZE;
  const int64_t pair = min((int)blockIdx.x * Columns::PAIRS + part_of_pair, a.count - 1);
  const float2 *points = a.points + (pair * problem.channels + group * channels) * tile + corner;
  float2 *lines = shared + part_of_pair * a.sets * SET;
  float2 *own = lines + GROUP * C * first + c; /* the thread's 16 points of a set */
  if (KEEPS)
    ROLLED_FOR (int i = 0; i < channels; i++) {
      float2 part[16];
      enter_columns<Columns>(a, points + i * tile, lines + i * SET);
      load_transformed<C>(own + i * SET, part);
      UNROLLED_FOR (int n = 0; n < 16; n++)
        own[i * SET + n * C] = part[n];
    }
  const int end = (int)((int64_t)(split + 1) * filters / a.splits);
  ROLLED_FOR (int k = (int)((int64_t)split * filters / a.splits); k < end; k++) {
    const int64_t filter = (int64_t)group * filters + k;
    const float2 *spectrum = a.spectra + filter * channels * tile + corner + C * first + c;
    float2 sums[16] = {};
    ROLLED_FOR (int i = 0; i < channels; i++, spectrum += tile) {
      float2 part[16];
      if (!KEEPS) {
        enter_columns<Columns>(a, points + i * tile, lines);
        load_transformed<C>(own, part);
      }
      UNROLLED_FOR (int n = 0; n < 16; n++)
        add_product(sums[n], KEEPS ? own[i * SET + n * C] : part[n], __ldg(spectrum + n * STEP));
      if (!KEEPS)
        __syncthreads();
    }
    transform_points<BACKWARD>(sums);
    const int set = KEEPS && k + 1 < end ? channels : 0; /* for the last filter, the first channel's place is free */
    UNROLLED_FOR (int n = 0; n < 16; n++)
      own[set * SET + n * C] = sums[n];
    leave_columns<Columns>(a, lines + set * SET, a.sums + (pair * problem.filters + filter) * tile + corner);
    if (k + 1 < end)
      __syncthreads();
  }
}

/* ---- Rows back ---- */

/* Returns whether the transforms kept a sum right: it is finite, and not so small that samples may have been subnormal. If a
 * sum depends on a point that is not finite, the sum is not finite. */
DEVICE bool is_sound(float sum) {
  const float size = fabsf(sum);
  return size == 0 || (size >= 0x1p-100f && size <= 0x1.fffffep127f);
}

/* Stores one tile's outputs of filter k at the points x, x + STEP .. of row y. Lost sums are computed by the definition. */
template <int STEP, int PART, int N>
DEVICE void store_outputs(const layer_arguments &a, int64_t image, const layer_tile &tile, int64_t k, int y, int x,
                          const float2 (&points)[N]) {
  const gconv_layer_problem &problem = a.problem;
  const int p = tile.p + y / problem.stride_y, stride = problem.stride_x;
  if (!tile.there || y >= a.c.valid_y || p >= problem.out_height)
    return;
  const float scale = __ldg(a.scales + k), bias = __ldg(a.biases + k);
  float *to = a.out + ((image * problem.filters + k) * problem.out_height + p) * problem.out_width;
  UNROLLED_FOR (int i = 0; i < N; i++) {
    const int at = x + STEP * i, column = stride == 1 ? at : at / stride, q = tile.q + column;
    if (at >= a.c.valid_x || column * stride != at || q >= problem.out_width)
      continue;
    float sum = PART == 0 ? points[i].x : points[i].y;
    if (is_sound(sum))
      sum *= scale;
    else {
      const int64_t channels = problem.channels / problem.groups, group = k / (problem.filters / problem.groups);
      sum = defined_sum(&problem, a.in + (image * problem.channels + group * channels) * gconv_layer_plane(&problem),
                        a.weights + k * gconv_layer_taps(&problem), p, q);
    }
    to[q] = activate(problem, sum + bias);
  }
}

/* Grid: x counts groups of ROWS output rows of a tile, y filters, z pairs of the batch. */
template <class Line>
__global__ void __launch_bounds__(Line::THREADS, Line::LEAVE_BLOCKS) leave_rows(const __grid_constant__ layer_arguments a) {
  constexpr int P = Line::P, STEP = Line::SIZE / P;
  extern __shared__ float2 lines[];
  __shared__ layer_pair pair;
  const int stride = a.problem.stride_y, top = blockIdx.x * Line::ROWS * stride;
  locate_pair(a, blockIdx.z, &pair);
  {
    const int64_t tile = ((int64_t)blockIdx.z * a.problem.filters + blockIdx.y) * a.c.height * Line::SIZE;
    const stored_place place = place_of_thread<Line>(a.c.columns, a.c.height, tile, top, stride);
    float2 points[16], *at = lines + place.row * Line::ROW + GROUP * place.m;
    const float2 *from = a.sums + place.first;
    UNROLLED_FOR (int i = 0; i < 16; i++)
      points[i] = from[(int64_t)i * (Line::SIZE / 16) * a.c.height];
    transform_points<BACKWARD>(points);
    UNROLLED_FOR (int i = 0; i < 16; i++)
      at[i] = points[i];
  }
  __syncthreads();
  pass_middle_of_rows<Line, BACKWARD>(lines, a.twists_x);
  __syncthreads();
  ROLLED_FOR (int task = threadIdx.x; task < Line::ROWS * STEP; task += Line::THREADS) {
    const int row = task / STEP, j = task % STEP;
    float2 points[P];
    const float2 *at = lines + row * Line::ROW + j + j / 16;
    UNROLLED_FOR (int k = 0; k < P; k++)
      points[k] = at[k * Line::PART];
    twist<BACKWARD>(a.twists_x + j, STEP, points);
    transform_points<BACKWARD>(points);
    store_outputs<STEP, 0>(a, pair.image, pair.tiles[0], blockIdx.y, top + row * stride, j, points);
    store_outputs<STEP, 1>(a, pair.image, pair.tiles[1], blockIdx.y, top + row * stride, j, points);
  }
}

} // namespace
