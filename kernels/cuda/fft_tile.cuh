/* SPDX-License-Identifier: MIT */
/*
 * fft's engine for filters to about 80 x 80: a tile is transformed, multiplied and transformed back by one block, in one
 * kernel, without leaving its shared memory.
 *
 * A tile has N x N points, N = 8 * A; a point holds a sample of one real tile in its real part and one of another in its
 * imaginary part. Filters are real, so the two stay apart. A line is transformed in two passes, A points (those 8 apart),
 * twist, 8 points (neighbours), and back in the opposite order: what one direction leaves where it fell, the other finds
 * there, so nothing is ever reordered. Rows belong to a warp, and so do columns: between the passes of a line the warp waits
 * for itself alone, and the block waits only between rows and columns.
 *
 *     memory -> A 8 rows  | barrier |  A 8 columns, product, 8 A columns  | barrier |  8 A rows that are wanted -> memory
 *
 * A point takes some 115 instructions and 12 accesses of 8 bytes to shared memory, all told.
 */
#ifndef GCONV_CUDA_FFT_TILE_CUH
#define GCONV_CUDA_FFT_TILE_CUH

#include "common.cuh"
#include "fft_registers.cuh"

namespace {

/* ---- Shapes ---- */

/* Shared memory has 16 banks of 8 bytes. Gaps put the points that half a warp reads or writes at a time into 16 different
 * ones: two neighbouring rows at 8 neighbouring columns; A points that are 8 apart in a row; 8 columns of two rows that
 * are 1 or 8 apart. */
template <int A> struct tile_shape {
  static constexpr int SIZE = 8 * A;
  static constexpr int THREADS = 32 * A;
  static constexpr int GAP = A == 8 ? 8 : 16; /* columns between gaps */
  static constexpr int ROW = SIZE + SIZE / GAP;
  static constexpr int ODD_ROW = (ROW + 7) / 16 * 16 + 8; /* from an even row to the next */
  static constexpr int TWO_ROWS = ODD_ROW + ROW;          /* from an even row to the next even one */
  static constexpr int EIGHT_ROWS = (4 * TWO_ROWS + 7) / 16 * 16 + 8;
  static constexpr int POINTS = EIGHT_ROWS * A;
  static constexpr int TWISTS = A + 2; /* distance of the twist factors of neighbouring points: 16 bytes, other banks */
  static constexpr size_t SHARED = (POINTS + 8 * TWISTS) * sizeof(float2) + 4 * SIZE * sizeof(int);
  static constexpr int BLOCKS = A == 8 ? 4 : 1; /* of a multiprocessor */

  static __device__ __forceinline__ constexpr int across(int x) {
    return x + x / GAP;
  }
  static __device__ __forceinline__ constexpr int down(int y) {
    return y % 2 * ODD_ROW + y % 8 / 2 * TWO_ROWS + y / 8 * EIGHT_ROWS;
  }
};

struct tile_arguments {
  arguments common;
  const float *weights;
  const float2 *twists;     /* exp(-2 pi i j k / N) at j * TWISTS + k, j < 8, k < A */
  const float4 *spectra;    /* of the filters, divided by N * N, two points each, in the order of their use */
  float4 *kept;             /* several filters: room for the spectrum of a block's tile */
  float2 *combined;         /* combined filters: room for what is combined of a block's tile */
  int32_t valid_y, valid_x; /* output pixels of a tile, before striding */
  int32_t first_x;          /* column of the first of them */
  int32_t tiles_y, tiles_x;
  int32_t colours; /* channels that are filtered */
  int32_t tiles;   /* of all images, planes and colours */
  bool plain;      /* the epilogue is a scale and an offset */
};

/* A real tile: where its samples come from and go to. */
struct real_tile {
  const uint8_t *in; /* the plane, from its colour's first sample on */
  uint8_t *out;      /* likewise */
  int32_t top, left; /* of its first point in the image */
  int32_t p, q;      /* the first output pixel */
};

__device__ inline real_tile locate_tile(const tile_arguments &a, int index) {
  const gconv_problem &problem = a.common.problem;
  int rest = index / a.colours, colour = index - rest * a.colours;
  int plane = rest / (a.tiles_y * a.tiles_x);
  rest -= plane * (a.tiles_y * a.tiles_x);
  int row = rest / a.tiles_x, column = rest - row * a.tiles_x, image = plane / problem.planes;
  plane -= image * problem.planes;
  int bytes = problem.in_type == GCONV_U8 ? 1 : problem.in_type == GCONV_U16 ? 2 : 4;
  real_tile tile;
  tile.in = a.common.in + image * a.common.in_image + plane * a.common.in_plane + colour * bytes;
  tile.out = a.common.out + image * a.common.out_image + plane * a.common.out_plane + colour * a.common.out_channel;
  tile.top = row * a.valid_y - problem.pad_top;
  tile.left = column * a.valid_x - problem.pad_left - a.first_x;
  tile.p = row * (a.valid_y / problem.stride_y);
  tile.q = column * (a.valid_x / problem.stride_x);
  return tile;
}

/* ---- From memory ---- */

/* Where the rows and columns of two tiles are found: row numbers, and elements of a row; or GCONV_OUTSIDE. */
template <int A> struct places { int rows[2][tile_shape<A>::SIZE], columns[2][tile_shape<A>::SIZE]; };

template <int A> __device__ __forceinline__ bool lies_inside(const gconv_problem &problem, const real_tile &tile) {
  return tile.top >= 0 && tile.left >= 0 && tile.top + tile_shape<A>::SIZE <= problem.height &&
         tile.left + tile_shape<A>::SIZE <= problem.width;
}

template <int A>
__device__ void find_places(const gconv_problem &problem, const real_tile &first, const real_tile &second,
                            places<A> &found) {
  constexpr int N = tile_shape<A>::SIZE;
  for (int i = threadIdx.x; i < 4 * N; i += tile_shape<A>::THREADS) {
    int at = i / 4;
    if (i & 2) {
      int top = i & 1 ? second.top : first.top;
      found.rows[i & 1][at] = (int)gconv_border_index(problem.border, (int64_t)top + at, problem.height);
    } else {
      int left = i & 1 ? second.left : first.left;
      int x = (int)gconv_border_index(problem.border, (int64_t)left + at, problem.width);
      found.columns[i & 1][at] = x == GCONV_OUTSIDE ? GCONV_OUTSIDE : x * problem.channels;
    }
  }
}

/* Points x, x + 8, x + 16 .. of a row of tiles that lie inside: samples from `first` and `second` on, `step` apart. */
template <class In, int A>
__device__ __forceinline__ void load_inner(const In *first, const In *second, int step, float2 (&points)[A]) {
#pragma unroll
  for (int i = 0; i < A; i++)
    points[i] = make_float2((float)__ldg(first + i * step), (float)__ldg(second + i * step));
}

/* The same of any row of any tiles. */
template <class In, int A>
__device__ __forceinline__ void load_outer(const arguments &a, const real_tile &first, const real_tile &second,
                                           const places<A> &found, int y, int x, float2 (&points)[A]) {
  const float level = a.problem.border_level;
  const int row0 = found.rows[0][y], row1 = found.rows[1][y];
  const In *in0 = (const In *)(first.in + max(row0, 0) * a.in_row), *in1 = (const In *)(second.in + max(row1, 0) * a.in_row);
#pragma unroll
  for (int i = 0; i < A; i++) {
    int column0 = found.columns[0][x + 8 * i], column1 = found.columns[1][x + 8 * i];
    points[i].x = (row0 | column0) < 0 ? level : (float)__ldg(in0 + column0);
    points[i].y = (row1 | column1) < 0 ? level : (float)__ldg(in1 + column1);
  }
}

template <class In, int A>
__device__ __forceinline__ void load_points(const arguments &a, const real_tile &first, const real_tile &second, bool inner,
                                            const places<A> &found, int y, int x, float2 (&points)[A]) {
  if (!inner)
    return load_outer<In, A>(a, first, second, found, y, x, points);
  const int channels = a.problem.channels;
  load_inner<In, A>((const In *)(first.in + (first.top + y) * a.in_row) + (int64_t)(first.left + x) * channels,
                    (const In *)(second.in + (second.top + y) * a.in_row) + (int64_t)(second.left + x) * channels,
                    8 * channels, points);
}

/* ---- Passes over shared memory ---- */

/* The A points y, y + 8, y + 16 .. of a column or row, `at` being the address of the first: multiplied by their twists, or
 * the conjugates of them. */
template <int A, int SIGN> __device__ __forceinline__ void twist(const float2 *twists, int j, float2 (&points)[A]) {
  const float4 *factors = (const float4 *)(twists + j * tile_shape<A>::TWISTS);
#pragma unroll
  for (int k = 0; k < A; k += 2) {
    float4 two = factors[k / 2];
    float2 even = make_float2(two.x, two.y), odd = make_float2(two.z, two.w);
    if (k > 0)
      points[k] = SIGN == FORWARD ? times(points[k], even) : times_conjugate(points[k], even);
    points[k + 1] = SIGN == FORWARD ? times(points[k + 1], odd) : times_conjugate(points[k + 1], odd);
  }
}

/* The second pass forward, or the first backward, of four rows from `top` on: 8 neighbouring points at a time. */
template <int A, int SIGN> __device__ __forceinline__ void pass_rows(float2 *tile, int top, int lane) {
  using shape = tile_shape<A>;
#pragma unroll
  for (int task = lane; task < 4 * A; task += 32) {
    float2 *at = tile + shape::down(top + task / A) + shape::across(8 * (task % A)), points[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
      points[i] = at[i];
    transform_points<SIGN>(points);
#pragma unroll
    for (int i = 0; i < 8; i++)
      at[i] = points[i];
  }
}

/* Rows from `top` on, four: from memory to spectra of rows. */
template <int A>
__device__ __forceinline__ void enter_rows(const tile_arguments &a, const real_tile &first, const real_tile &second,
                                           bool inner, const places<A> &found, const float2 *twists, int top, int lane,
                                           float2 *tile) {
  using shape = tile_shape<A>;
  const int j = lane % 8, y = top + lane / 8;
  float2 points[A], *at = tile + shape::down(y) + j;
  switch (a.common.problem.in_type) {
  case GCONV_U8:
    load_points<uint8_t, A>(a.common, first, second, inner, found, y, j, points);
    break;
  case GCONV_U16:
    load_points<uint16_t, A>(a.common, first, second, inner, found, y, j, points);
    break;
  default:
    load_points<float, A>(a.common, first, second, inner, found, y, j, points);
  }
  transform_points<FORWARD>(points);
  twist<A, FORWARD>(twists, j, points);
#pragma unroll
  for (int k = 0; k < A; k++)
    at[shape::across(8 * k)] = points[k];
  __syncwarp();
  pass_rows<A, FORWARD>(tile, top, lane);
}

/* The A points that are 8 rows apart, of 8 columns: the first pass forward, or the last backward. */
template <int A, int SIGN> __device__ __forceinline__ void pass_columns(const float2 *twists, float2 *columns, int lane) {
  using shape = tile_shape<A>;
#pragma unroll 1
  for (int j = lane / 8; j < 8; j += 4) {
    float2 points[A], *at = columns + lane % 8 + shape::down(j);
#pragma unroll
    for (int k = 0; k < A; k++)
      points[k] = at[k * shape::EIGHT_ROWS];
    if (SIGN == BACKWARD)
      twist<A, BACKWARD>(twists, j, points);
    transform_points<SIGN>(points);
    if (SIGN == FORWARD)
      twist<A, FORWARD>(twists, j, points);
#pragma unroll
    for (int k = 0; k < A; k++)
      at[k * shape::EIGHT_ROWS] = points[k];
  }
}

/* The columns' innermost passes, and between them the product with the spectrum of filter k. `where` is the place of the
 * lane's numbers in spectra. Of several filters, the first keeps what the others take. */
template <int A>
__device__ __forceinline__ void multiply_columns(const tile_arguments &a, int k, int where, float2 *columns, int lane) {
  using shape = tile_shape<A>;
  const float4 *spectrum = a.spectra + (int64_t)k * (shape::SIZE * shape::SIZE / 2) + where;
  float4 *kept = a.kept + (int64_t)blockIdx.x * (shape::SIZE * shape::SIZE / 2) + where;
#pragma unroll 1
  for (int m = lane / 8; m < A; m += 4, spectrum += 4 * 32, kept += 4 * 32) {
    float2 points[8], *at = columns + lane % 8 + m * shape::EIGHT_ROWS;
    float4 factors[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
      factors[i] = __ldg(spectrum + 32 * i);
    if (k == 0) {
#pragma unroll
      for (int i = 0; i < 8; i++)
        points[i] = at[shape::down(i)];
      transform_points<FORWARD>(points);
      if (a.common.problem.filters > 1)
#pragma unroll
        for (int i = 0; i < 4; i++)
          kept[32 * i] = make_float4(points[2 * i].x, points[2 * i].y, points[2 * i + 1].x, points[2 * i + 1].y);
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float4 two = kept[32 * i];
        points[2 * i] = make_float2(two.x, two.y);
        points[2 * i + 1] = make_float2(two.z, two.w);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      points[2 * i] = times(points[2 * i], make_float2(factors[i].x, factors[i].y));
      points[2 * i + 1] = times(points[2 * i + 1], make_float2(factors[i].z, factors[i].w));
    }
    transform_points<BACKWARD>(points);
#pragma unroll
    for (int i = 0; i < 8; i++)
      at[shape::down(i)] = points[i];
  }
}

/* 8 columns: forward, times the spectrum of filter k, and back. */
template <int A>
__device__ __forceinline__ void filter_columns(const tile_arguments &a, int k, const float2 *twists, int warp, int lane,
                                               float2 *tile) {
  float2 *columns = tile + tile_shape<A>::across(8 * warp);
  if (k == 0)
    pass_columns<A, FORWARD>(twists, columns, lane);
  __syncwarp();
  multiply_columns<A>(a, k, warp * (A * 8 * 8 / 2) + lane, columns, lane);
  __syncwarp();
  pass_columns<A, BACKWARD>(twists, columns, lane);
}

/* ---- To memory ---- */

/* From sums of filter k to finished values, or to what is combined so far. */
template <int A>
__device__ __forceinline__ void finish_points(const tile_arguments &a, int k, int where, float2 (&points)[A]) {
  const gconv_problem &problem = a.common.problem;
  const gconv_epilogue &epilogue = problem.epilogue;
  if (a.plain) {
#pragma unroll
    for (int i = 0; i < A; i++)
      points[i] = make_float2(fmaf(points[i].x, epilogue.scale, epilogue.offset),
                              fmaf(points[i].y, epilogue.scale, epilogue.offset));
    return;
  }
  const float divisor = gconv_divisors(&problem, a.weights)[k], bias = gconv_biases(&problem, a.weights)[k];
  const bool combined = gconv_is_combined(&problem);
  float2 *before = a.combined + ((int64_t)blockIdx.x * (2 * A) + where / 4) * (A * 32) + threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < A; i++) {
    float2 value = make_float2(gconv_response(points[i].x, divisor, bias), gconv_response(points[i].y, divisor, bias));
    if (combined && k == 0)
      value = make_float2(gconv_combine_first(epilogue.combine, value.x), gconv_combine_first(epilogue.combine, value.y));
    else if (combined) {
      float2 old = before[i * 32];
      value = make_float2(gconv_combine_next(epilogue.combine, old.x, value.x),
                          gconv_combine_next(epilogue.combine, old.y, value.y));
    }
    if (combined && k + 1 < problem.filters) {
      before[i * 32] = value;
      continue;
    }
    if (combined)
      value = make_float2(gconv_combine_last(epilogue.combine, value.x), gconv_combine_last(epilogue.combine, value.y));
    points[i] = make_float2(gconv_finish(value.x, &epilogue), gconv_finish(value.y, &epilogue));
  }
}

/* Stores one of the two tiles of points: those 8 apart, from column `x` of the valid ones on (which may be negative). */
template <class Out, int A, int TILE>
__device__ __forceinline__ void store_points(const tile_arguments &a, int k, const real_tile &tile, int y, int x,
                                             const float2 (&points)[A]) {
  const gconv_problem &problem = a.common.problem;
  const int stride = problem.stride_x, limit = min(a.valid_x, (problem.out_width - tile.q) * stride);
  const int down = problem.stride_y == 1 ? y : y / problem.stride_y;
  if (y >= a.valid_y || down * problem.stride_y != y || tile.p + down >= problem.out_height)
    return;
  uint8_t *row = tile.out + k * a.common.out_filter + (tile.p + down) * a.common.out_row;
  if (stride == 1) {
    uint8_t *to = row + (tile.q + x) * a.common.out_pixel;
    const int64_t step = 8 * a.common.out_pixel;
#pragma unroll
    for (int i = 0; i < A; i++, to += step)
      if ((unsigned)(x + 8 * i) < (unsigned)limit)
        gconv_store(TILE == 0 ? points[i].x : points[i].y, (Out *)to);
    return;
  }
#pragma unroll
  for (int i = 0; i < A; i++) {
    int q = (x + 8 * i) / stride;
    if ((unsigned)(x + 8 * i) < (unsigned)limit && q * stride == x + 8 * i)
      gconv_store(TILE == 0 ? points[i].x : points[i].y, (Out *)(row + (tile.q + q) * a.common.out_pixel));
  }
}

template <class Out, int A>
__device__ __forceinline__ void store_two(const tile_arguments &a, int k, const real_tile &first, const real_tile &second,
                                          bool two, int y, int x, const float2 (&points)[A]) {
  store_points<Out, A, 0>(a, k, first, y, x, points);
  if (two)
    store_points<Out, A, 1>(a, k, second, y, x, points);
}

/* Four rows from `top` on: from spectra of rows to memory. */
template <int A>
__device__ __forceinline__ void leave_rows(const tile_arguments &a, int k, const real_tile &first, const real_tile &second,
                                           bool two, const float2 *twists, int top, int lane, float2 *tile) {
  using shape = tile_shape<A>;
  const gconv_problem &problem = a.common.problem;
  pass_rows<A, BACKWARD>(tile, top, lane);
  __syncwarp();
  const int j = lane % 8, y = top + lane / 8;
  float2 points[A], *at = tile + shape::down(y) + j;
#pragma unroll
  for (int i = 0; i < A; i++)
    points[i] = at[shape::across(8 * i)];
  twist<A, BACKWARD>(twists, j, points);
  transform_points<BACKWARD>(points);
  finish_points<A>(a, k, top, points);
  if (gconv_is_combined(&problem) && k + 1 < problem.filters)
    return;
  int filter = gconv_is_combined(&problem) ? 0 : k;
  if (problem.out_type == GCONV_U8)
    store_two<uint8_t, A>(a, filter, first, second, two, y, j - a.first_x, points);
  else if (problem.out_type == GCONV_U16)
    store_two<uint16_t, A>(a, filter, first, second, two, y, j - a.first_x, points);
  else
    store_two<float, A>(a, filter, first, second, two, y, j - a.first_x, points);
}

/* ---- The kernel ---- */

/* Pairs of tiles, one after the other. Warp w has rows 4 * w .. 4 * w + 3 and as many N / 2 further down, and columns
 * 8 * w .. 8 * w + 7. So a warp's rows leave, and those of the next tiles enter, without waiting for other warps. */
template <int A>
__global__ void __launch_bounds__(tile_shape<A>::THREADS, tile_shape<A>::BLOCKS)
    convolve_tiles(const __grid_constant__ tile_arguments a) {
  using shape = tile_shape<A>;
  extern __shared__ float4 shared[];
  float2 *tile = (float2 *)shared, *twists = tile + shape::POINTS;
  places<A> &found = *(places<A> *)(twists + 8 * shape::TWISTS);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < 8 * shape::TWISTS; i += shape::THREADS)
    twists[i] = a.twists[i];
  __syncthreads();
  for (int pair = blockIdx.x; 2 * pair < a.tiles; pair += gridDim.x) {
    const bool two = 2 * pair + 1 < a.tiles;
    const real_tile first = locate_tile(a, 2 * pair), second = locate_tile(a, 2 * pair + two);
    const bool inner = lies_inside<A>(a.common.problem, first) && lies_inside<A>(a.common.problem, second);
    if (!inner) {
      find_places<A>(a.common.problem, first, second, found);
      __syncthreads();
    }
    for (int top = 4 * warp; top < shape::SIZE; top += 4 * A)
      enter_rows<A>(a, first, second, inner, found, twists, top, lane, tile);
    __syncthreads();
    for (int k = 0; k < a.common.problem.filters; k++) {
      filter_columns<A>(a, k, twists, warp, lane, tile);
      __syncthreads();
      for (int top = 4 * warp; top < a.valid_y; top += 4 * A)
        leave_rows<A>(a, k, first, second, two, twists, top, lane, tile);
      if (k + 1 < a.common.problem.filters)
        __syncthreads();
    }
    __syncwarp();
  }
}

} // namespace

#endif
