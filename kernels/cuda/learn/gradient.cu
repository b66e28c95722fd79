/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution's weights: for each case, and each band of its output rows, the sums over the places of the
 * band of dz[k][place] * x[under tap t of place], in chains from the first place to the last.
 *
 *     shared memory, some rows at a time, of two stages         sums in registers
 *     x:  channels x rows under these x columns                 a thread has one tap t and FILTERS filters k
 *     dz: filters x rows x columns
 *
 * A thread goes through the places four at a time. It reads four samples under its tap, and four gradients of each of its
 * filters, and does 4 FILTERS multiply-adds with them. All threads of a warp have the same filters, so that one read of a
 * gradient serves them all. Rows and channels of x lie so far apart that the samples of neighbouring taps are in
 * neighbouring banks. While the threads use one stage, the next rows are copied into the other. The bias is a tap whose
 * samples are 1.
 */
#include "../copies.cuh"
#include "layers.h"

#include <algorithm>

namespace {

enum : int { FILTERS = 8, MOST_FILTERS = 16, MOST_TAPS = 160, SHARED_BYTES = 110 << 10, STAGES = 2 };

struct arguments {
  gconv_layer_problem p;
  const float *x, *dz;
  float *leaves;
  int64_t parameters;          /* from one leaf to the next */
  int32_t taps, tiles, blocks; /* of a filter; blocks of taps; blocks of filters, of a group */
  int32_t threads_of_taps;     /* a multiple of 32 */
  int32_t filters;             /* of a block */
  int32_t bands, band_rows;
  /* A stage: rows and columns of outputs; floats of a row of a channel of x, floats of a channel, and channels; floats of a
   * row of dz. */
  int32_t rows, columns, x_pitch, x_plane, channels, dz_pitch;
};

/* Copies dz at rows from p0 and columns from q0; 0 where there is no filter. */
DEVICE void load_gradients(const arguments &a, const float *dz, int32_t filters, int32_t p0, int32_t rows, int32_t q0,
                           int32_t columns, float *to) {
  const int64_t plane = (int64_t)a.p.out_height * a.p.out_width;
  const bool fours = a.p.out_width % 4 == 0 && ((uintptr_t)dz & 15) == 0;
  const int32_t wide = fours ? columns / 4 : columns, all = a.filters * rows * wide;
  for (int32_t i = (int32_t)threadIdx.x; i < all; i += (int32_t)blockDim.x) {
    const int32_t line = i / wide, k = line / rows, row = line - k * rows, column = (i - line * wide) * (fours ? 4 : 1);
    const bool there = k < filters;
    const float *from = there ? dz + k * plane + (int64_t)(p0 + row) * a.p.out_width + q0 + column : dz;
    const uint32_t at = shared_address(to + (k * a.rows + row) * a.dz_pitch + column);
    if (fours)
      copy_async_or_zero<16>(at, from, there);
    else
      copy_async_or_zero<4>(at, from, there);
  }
}

/* Copies the samples under these outputs, with zeros outside the image. */
DEVICE void load_samples(const arguments &a, const float *x, int32_t channels, int32_t p0, int32_t rows, int32_t q0,
                         int32_t columns, float *to) {
  const gconv_layer_problem &p = a.p;
  const int32_t high = (rows - 1) * p.stride_y + (p.rows - 1) * p.dilation_y + 1;
  const int32_t wide = (columns - 1) * p.stride_x + (p.columns - 1) * p.dilation_x + 1;
  const int32_t top = p0 * p.stride_y - p.pad_top, left = q0 * p.stride_x - p.pad_left;
  const int32_t warp = (int32_t)threadIdx.x / 32, warps = (int32_t)blockDim.x / 32;
  for (int32_t line = warp; line < channels * high; line += warps) {
    const int32_t c = line / high, row = line - c * high, y = top + row;
    const bool inside = (unsigned)y < (unsigned)p.height;
    const float *from = x + ((int64_t)c * p.height + y) * p.width + left;
    const uint32_t at = shared_address(to + c * a.x_plane + row * a.x_pitch);
    for (int32_t i = (int32_t)threadIdx.x % 32; i < wide; i += 32) {
      const bool there = inside && (unsigned)(left + i) < (unsigned)p.width;
      copy_async_or_zero<4>(at + 4 * i, there ? from + i : x, there);
    }
  }
}

/* Adds the places of a row, one after the other, four at a time. apart: floats from one filter to the next. */
DEVICE void add_row(const float *dz, int32_t apart, const float *x, int32_t step, int32_t columns, float (&sums)[FILTERS]) {
  int32_t q = 0;
  for (; q + 4 <= columns; q += 4, x += 4 * step) {
    const float x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    float4 four[FILTERS];
    UNROLLED_FOR (int k = 0; k < FILTERS; k++)
      four[k] = *(const float4 *)(dz + k * apart + q);
    UNROLLED_FOR (int k = 0; k < FILTERS; k++)
      sums[k] = fmaf(x3, four[k].w, fmaf(x2, four[k].z, fmaf(x1, four[k].y, fmaf(x0, four[k].x, sums[k]))));
  }
  for (; q < columns; q++, x += step)
    UNROLLED_FOR (int k = 0; k < FILTERS; k++)
      sums[k] = fmaf(*x, dz[k * apart + q], sums[k]);
}

/* Where the outputs of a chunk are. */
struct chunk {
  int32_t p0, rows, q0, columns;
};
DEVICE chunk chunk_of(const arguments &a, int32_t number, int32_t first_row, int32_t last_row) {
  const int32_t across = (a.p.out_width + a.columns - 1) / a.columns, down = number / across;
  chunk at;
  at.p0 = first_row + down * a.rows;
  at.q0 = (number - down * across) * a.columns;
  at.rows = min(a.rows, last_row - at.p0);
  at.columns = min(a.columns, a.p.out_width - at.q0);
  return at;
}

__global__ void __launch_bounds__(2 * MOST_TAPS, 2) sum_weights(const __grid_constant__ arguments a) {
  extern __shared__ __align__(16) float shared[];
  const gconv_layer_problem &p = a.p;
  const int32_t tile = (int32_t)blockIdx.y % a.tiles, block = (int32_t)blockIdx.y / a.tiles % a.blocks,
                group = (int32_t)blockIdx.y / a.tiles / a.blocks;
  const int64_t leaf = blockIdx.x, image = leaf / a.bands;
  const int32_t first_row = (int32_t)(leaf - image * a.bands) * a.band_rows, plane_taps = p.rows * p.columns;
  const int32_t last_row = min(first_row + a.band_rows, p.out_height), of_group = p.filters / p.groups;
  const int32_t filters = min(a.filters, of_group - block * a.filters);
  /* The thread's own tap and filters. */
  const int32_t lane = (int32_t)threadIdx.x % a.threads_of_taps, first_tap = tile * a.threads_of_taps;
  const int32_t tap = min(first_tap + lane, a.taps), k = (int32_t)threadIdx.x / a.threads_of_taps * FILTERS;
  const int32_t first_channel = first_tap / plane_taps, channels = p.channels / p.groups;
  const int32_t some =
      min(min(first_tap + a.threads_of_taps - 1, a.taps - 1) / plane_taps, channels - 1) - first_channel + 1;
  const int32_t c = tap / plane_taps, r = (tap - c * plane_taps) / p.columns, s = tap - c * plane_taps - r * p.columns;
  const bool is_bias = tap == a.taps;
  const int32_t dz_floats = a.filters * a.rows * a.dz_pitch, stage_floats = (dz_floats + a.channels * a.x_plane + 3) / 4 * 4;
  float *ones = shared + STAGES * stage_floats;
  for (int32_t i = (int32_t)threadIdx.x; i < a.x_pitch; i += (int32_t)blockDim.x)
    ones[i] = 1.0f;
  const int32_t place = (c - first_channel) * a.x_plane + r * p.dilation_y * a.x_pitch + s * p.dilation_x;
  const int32_t down = is_bias ? 0 : p.stride_y * a.x_pitch, apart = a.rows * a.dz_pitch;
  const float *x = a.x + (image * p.channels + group * channels + first_channel) * p.height * p.width;
  const float *dz = a.dz + (image * p.filters + group * of_group + block * a.filters) * p.out_height * p.out_width;
  const int32_t across = (p.out_width + a.columns - 1) / a.columns,
                chunks = (last_row - first_row + a.rows - 1) / a.rows * across;
  const auto load = [&](int32_t number) {
    if (number < chunks) {
      const chunk at = chunk_of(a, number, first_row, last_row);
      float *stage = shared + number % STAGES * stage_floats;
      load_gradients(a, dz, filters, at.p0, at.rows, at.q0, at.columns, stage);
      load_samples(a, x, some, at.p0, at.rows, at.q0, at.columns, stage + dz_floats);
    }
    commit_copies();
  };
  float sums[FILTERS] = {};
  load(0);
  for (int32_t number = 0; number < chunks; number++) {
    load(number + 1);
    await_copies<1>();
    __syncthreads();
    const chunk at = chunk_of(a, number, first_row, last_row);
    const float *stage = shared + number % STAGES * stage_floats, *from = is_bias ? ones : stage + dz_floats + place;
    for (int32_t row = 0; row < at.rows; row++)
      add_row(stage + k * apart + row * a.dz_pitch, apart, from + row * down, p.stride_x, at.columns, sums);
    __syncthreads();
  }
  if (first_tap + lane > a.taps)
    return;
  float *to = a.leaves + leaf * a.parameters;
  UNROLLED_FOR (int i = 0; i < FILTERS; i++)
    if (k + i < filters) {
      const int64_t filter = (int64_t)group * of_group + block * a.filters + k + i;
      to[is_bias ? (int64_t)p.filters * a.taps + filter : filter * a.taps + tap] = sums[i];
    }
}

/* The least number from `floats` on that is `wanted` modulo 32. */
int32_t padded(int32_t floats, int32_t wanted) {
  return floats + ((wanted - floats) % 32 + 32) % 32;
}

int32_t shared_floats(const arguments &a) {
  return STAGES * ((a.filters * a.rows * a.dz_pitch + a.channels * a.x_plane + 3) / 4 * 4) + a.x_pitch;
}

/* Sets what is in shared memory at a time. */
void set_tile(arguments *a, int32_t rows, int32_t columns) {
  const gconv_layer_problem &p = a->p;
  a->rows = rows;
  a->columns = columns;
  const int32_t x_rows = (rows - 1) * p.stride_y + (p.rows - 1) * p.dilation_y + 1;
  a->x_pitch = padded((columns - 1) * p.stride_x + (p.columns - 1) * p.dilation_x + 1, p.columns);
  a->x_plane = padded(x_rows * a->x_pitch, p.rows * p.columns);
  a->dz_pitch = (columns + 3) / 4 * 4;
}

/* As many rows as fit, or, of wide images, a part of one. */
bool find_tile(arguments *a) {
  int32_t rows = std::min(a->band_rows, 8), columns = a->p.out_width;
  for (set_tile(a, rows, columns); shared_floats(*a) * 4 > SHARED_BYTES; set_tile(a, rows, columns))
    if (rows > 1)
      rows = (rows + 1) / 2;
    else if (columns > 32)
      columns = (columns + 1) / 2 / 4 * 4;
    else
      return false;
  return true;
}

} // namespace

bool gconv_learn_cuda_gradient(const gconv_learn_own *own, const float *x, const float *dz, int64_t cases, float *leaves,
                               cudaStream_t stream) {
  const gconv_layer_problem &p = own->layer.problem;
  arguments a = {p, x, dz, leaves, (int64_t)own->layer.parameters};
  const int64_t taps = gconv_layer_taps(&p), filters = p.filters / p.groups, plane_taps = (int64_t)p.rows * p.columns;
  if (taps > 1 << 24 || (int64_t)p.out_height * p.out_width > 1 << 28)
    return false;
  a.taps = (int32_t)taps;
  a.tiles = a.taps / MOST_TAPS + 1; /* with the bias */
  a.threads_of_taps = (a.taps / a.tiles + 1 + 31) / 32 * 32;
  a.tiles = a.taps / a.threads_of_taps + 1;
  a.filters = filters > FILTERS ? MOST_FILTERS : FILTERS;
  a.blocks = (int32_t)((filters + a.filters - 1) / a.filters);
  a.bands = gconv_learn_bands(&p);
  a.band_rows = gconv_learn_band_rows(&p);
  a.channels = (int32_t)std::min<int64_t>(p.channels / p.groups, (a.threads_of_taps - 2) / plane_taps + 2);
  const int64_t grid = (int64_t)a.tiles * a.blocks * p.groups;
  if (cases * a.bands > INT32_MAX || grid > 65535 || !find_tile(&a))
    return false;
  const int bytes = shared_floats(a) * (int)sizeof(float);
  if (cudaFuncSetAttribute(sum_weights, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) {
    cudaGetLastError(); /* a GPU with less shared memory: no failure */
    return false;
  }
  sum_weights<<<dim3((unsigned)(cases * a.bands), (unsigned)grid), (unsigned)(a.threads_of_taps * (a.filters / FILTERS)),
                bytes, stream>>>(a);
  return true;
}
