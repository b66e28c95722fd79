/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution's weights: for each case, and each band of its output rows, the sums over the places of the
 * band of dz[k][place] * x[under tap t of place], in chains from the first place to the last.
 *
 *     shared memory, some rows at a time                        sums in registers
 *     x:  channels x rows under these x columns                 a thread has one tap t and FILTERS filters k
 *     dz: places x filters, those of a place side by side
 *
 * For each place, a thread reads one sample, and FILTERS gradients that all threads of its warp share, four at a time: then
 * it does FILTERS multiply-adds. The distances between rows and between channels in shared memory are chosen so that
 * neighbouring taps lie in neighbouring banks. The bias is a tap whose samples are all 1.
 */
#include "../copies.cuh"
#include "layers.h"

#include <algorithm>

namespace {

enum : int { FILTERS = 8, MOST_FILTERS = 16, MOST_TAPS = 160, SHARED_BYTES = 100 << 10 };

struct arguments {
  gconv_layer_problem p;
  const float *x, *dz;
  float *leaves;
  int64_t parameters;          /* from one leaf to the next */
  int32_t taps, tiles, blocks; /* of a filter; blocks of taps; blocks of filters, of a group */
  int32_t threads_of_taps;     /* a multiple of 32 */
  int32_t filters;             /* of a block */
  int32_t bands, band_rows;
  /* What is in shared memory at a time: rows and columns of outputs; rows and floats of a row of a channel of x, floats of a
   * channel, and channels; floats from one place of dz to the next. */
  int32_t rows, columns, x_rows, x_pitch, x_plane, channels, dz_pitch;
};

/* Copies dz of filters first .. at rows from p0 and columns from q0, so that filters lie side by side; 0 where there is
 * none. */
DEVICE void load_gradients(const arguments &a, const float *dz, int32_t filters, int32_t p0, int32_t rows, int32_t q0,
                           int32_t columns, float *to) {
  const int32_t plane = a.p.out_height * a.p.out_width, places = rows * columns;
  for (int32_t i = (int32_t)threadIdx.x; i < places; i += (int32_t)blockDim.x) {
    const int32_t row = i / columns, column = i - row * columns;
    const float *from = dz + (p0 + row) * a.p.out_width + q0 + column;
    const uint32_t place = shared_address(to + (row * a.columns + column) * a.dz_pitch);
    for (int32_t k = 0; k < a.filters; k++)
      copy_async_or_zero<4>(place + 4 * k, k < filters ? from + (int64_t)k * plane : dz, k < filters);
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

DEVICE void add_place(const float4 *dz, float x, float (&sums)[FILTERS]) {
  UNROLLED_FOR (int k = 0; k < FILTERS; k += 4) {
    const float4 four = dz[k / 4];
    sums[k] = fmaf(x, four.x, sums[k]);
    sums[k + 1] = fmaf(x, four.y, sums[k + 1]);
    sums[k + 2] = fmaf(x, four.z, sums[k + 2]);
    sums[k + 3] = fmaf(x, four.w, sums[k + 3]);
  }
}

/* A place after the other, four at a time so that what they read is under way at once. DZ: from one place of dz to the next.
 */
template <int DZ>
DEVICE void add_row(const float *dz, const float *x, int32_t step, int32_t columns, float (&sums)[FILTERS]) {
  int32_t q = 0;
  for (; q + 4 <= columns; q += 4, dz += 4 * DZ, x += 4 * step) {
    const float xs[4] = {x[0], x[step], x[2 * step], x[3 * step]};
    float4 dzs[4][FILTERS / 4];
    UNROLLED_FOR (int i = 0; i < 4; i++)
      UNROLLED_FOR (int k = 0; k < FILTERS / 4; k++)
        dzs[i][k] = ((const float4 *)(dz + i * DZ))[k];
    UNROLLED_FOR (int i = 0; i < 4; i++)
      add_place(dzs[i], xs[i], sums);
  }
  for (; q < columns; q++, dz += DZ, x += step)
    add_place((const float4 *)dz, *x, sums);
}

template <int DZ> __global__ void __launch_bounds__(2 * MOST_TAPS, 2) sum_weights(const __grid_constant__ arguments a) {
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
  float *gradients = shared, *samples = gradients + a.rows * a.columns * a.dz_pitch,
        *ones = samples + a.channels * a.x_plane;
  for (int32_t i = (int32_t)threadIdx.x; i < a.x_pitch; i += (int32_t)blockDim.x)
    ones[i] = 1.0f;
  const float *own =
      is_bias ? ones : samples + (c - first_channel) * a.x_plane + r * p.dilation_y * a.x_pitch + s * p.dilation_x;
  const int32_t down = is_bias ? 0 : p.stride_y * a.x_pitch;
  const float *x = a.x + (image * p.channels + group * channels + first_channel) * p.height * p.width;
  const float *dz = a.dz + (image * p.filters + group * of_group + block * a.filters) * p.out_height * p.out_width;
  float sums[FILTERS] = {};
  for (int32_t p0 = first_row; p0 < last_row; p0 += a.rows)
    for (int32_t q0 = 0; q0 < p.out_width; q0 += a.columns) {
      const int32_t rows = min(a.rows, last_row - p0), columns = min(a.columns, p.out_width - q0);
      __syncthreads();
      load_samples(a, x, some, p0, rows, q0, columns, samples);
      load_gradients(a, dz, filters, p0, rows, q0, columns, gradients);
      commit_copies();
      await_copies<0>();
      __syncthreads();
      for (int32_t row = 0; row < rows; row++)
        add_row<DZ>(gradients + row * a.columns * DZ + k, own + row * down, p.stride_x, columns, sums);
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
  return a.channels * a.x_plane + a.x_pitch + a.rows * a.columns * a.dz_pitch;
}

/* Sets what is in shared memory at a time. */
void set_tile(arguments *a, int32_t rows, int32_t columns) {
  const gconv_layer_problem &p = a->p;
  a->rows = rows;
  a->columns = columns;
  a->x_rows = (rows - 1) * p.stride_y + (p.rows - 1) * p.dilation_y + 1;
  a->x_pitch = padded((columns - 1) * p.stride_x + (p.columns - 1) * p.dilation_x + 1, p.columns);
  a->x_plane = padded(a->x_rows * a->x_pitch, p.rows * p.columns);
  a->dz_pitch = a->filters + 4;
}

/* As many rows as fit, or, of wide images, a part of one. */
bool find_tile(arguments *a) {
  int32_t rows = std::min(a->band_rows, 16), columns = a->p.out_width;
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
  const auto kernel = a.filters == FILTERS ? sum_weights<FILTERS + 4> : sum_weights<MOST_FILTERS + 4>;
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES) != cudaSuccess)
    return false;
  kernel<<<dim3((unsigned)(cases * a.bands), (unsigned)grid), (unsigned)(a.threads_of_taps * (a.filters / FILTERS)), bytes,
           stream>>>(a);
  return true;
}
