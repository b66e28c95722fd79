/* SPDX-License-Identifier: MIT */
/*
 * Products of spectra on a GPU, in three dimensions or two: what src/restore/spectra.c does on the CPU, with the same sizes
 * and radices (kernels/cpu/fft_columns.h).
 *
 * Two real images are the real and the imaginary parts of the points, [z][y][x]: the spectrum of real taps keeps them apart.
 * A block transforms some lines in shared memory, by stages in place, which leave frequencies in digit-reversed order;
 * backward stages read that order. The last axis is transformed, multiplied and transformed back by one kernel. So a
 * convolution reads and writes the points four times, in two dimensions three times: memory bounds it. Lines that are zero,
 * and those that nobody needs, are left out.
 */
#pragma once

#include "../core/device.cuh"
#include "base/memory.h"
#include "device/device.h"
#include "fft_registers.cuh"
#include "kernels/cpu/fft_columns.h"

namespace {

enum { SPECTRA_THREADS = 256, SPECTRA_STAGES = 24 };

/* ---- Lines in shared memory ---- */

template <int SIGN> DEVICE void transform_points(float2 (&x)[3]) {
  constexpr float half = -0.5f, sine = SIGN * 0.86602540378443865f;
  const float2 sum = plus(x[1], x[2]), turned = minus(x[1], x[2]);
  const float2 middle = make_float2(fmaf(half, sum.x, x[0].x), fmaf(half, sum.y, x[0].y));
  x[0] = plus(x[0], sum);
  x[1] = make_float2(fmaf(-sine, turned.y, middle.x), fmaf(sine, turned.x, middle.y));
  x[2] = make_float2(fmaf(sine, turned.y, middle.x), fmaf(-sine, turned.x, middle.y));
}

/* An axis: its size, and how many of its lines a block transforms. Point i of line k is tile[i * pitch + k]. */
struct spectra_axis {
  int size, lines_log, pitch;
  signed char radices[SPECTRA_STAGES]; /* 0 ends them */
  const float2 *twiddles;              /* exp(-2 pi i j / size) */
};

/* A stage of all lines: transforms of RADIX points that are `part` points apart. Points are multiplied by twiddle factors
 * after a forward transform, and before a backward one. */
template <int RADIX, int SIGN> DEVICE void run_stage(const spectra_axis &axis, int part, const float2 *twiddles, float2 *tile) {
  const int line = (int)threadIdx.x & ((1 << axis.lines_log) - 1), step = axis.size / (RADIX * part);
  for (int b = (int)threadIdx.x >> axis.lines_log; b < axis.size / RADIX; b += SPECTRA_THREADS >> axis.lines_log) {
    const int group = b / part, j = b - group * part;
    float2 *at = tile + (group * RADIX * part + j) * axis.pitch + line, x[RADIX];
    UNROLLED_FOR (int i = 0; i < RADIX; i++) {
      x[i] = at[i * part * axis.pitch];
      if (SIGN == BACKWARD && i > 0 && part > 1)
        x[i] = times_conjugate(x[i], twiddles[i * j * step]);
    }
    transform_points<SIGN>(x);
    UNROLLED_FOR (int i = 0; i < RADIX; i++)
      at[i * part * axis.pitch] = SIGN == FORWARD && i > 0 && part > 1 ? times(x[i], twiddles[i * j * step]) : x[i];
  }
  __syncthreads();
}

/* Transforms the lines of a tile. All threads of the block call it; the tile is complete before, and after. */
template <int SIGN> DEVICE void transform_lines(const spectra_axis &axis, const float2 *twiddles, float2 *tile) {
  int count = 0;
  while (axis.radices[count] > 0)
    count++;
  for (int k = 0, part = SIGN == FORWARD ? axis.size : 1; k < count; k++) {
    const int radix = axis.radices[SIGN == FORWARD ? k : count - 1 - k];
    part /= SIGN == FORWARD ? radix : 1;
    switch (radix) {
    case 2:
      run_stage<2, SIGN>(axis, part, twiddles, tile);
      break;
    case 3:
      run_stage<3, SIGN>(axis, part, twiddles, tile);
      break;
    case 4:
      run_stage<4, SIGN>(axis, part, twiddles, tile);
      break;
    case 5:
      run_stage<5, SIGN>(axis, part, twiddles, tile);
      break;
    default:
      run_stage<8, SIGN>(axis, part, twiddles, tile);
    }
    part *= SIGN == FORWARD ? 1 : radix;
  }
}

/* Returns the tile, which lies behind the twiddle factors in shared memory, and fetches these. */
DEVICE float2 *begin_lines(const spectra_axis &axis, float2 *shared) {
  for (int i = (int)threadIdx.x; i < axis.size; i += SPECTRA_THREADS)
    shared[i] = axis.twiddles[i];
  return shared + axis.size + axis.size % 2;
}

/* ---- Kernels ---- */

/* Which lines along x are meant: those in the rows first .. first + rows - 1 of the planes below `planes`. */
struct spectra_lines {
  int first, rows, planes;
};

/* Points: y + size_y * z counts rows, which are `pitch` points apart. */
struct spectra_points {
  float2 *points;
  int pitch, size_y;
};

/* Which line along x a block's line k is; returns whether there is one. */
DEVICE bool find_line(const spectra_axis &x, const spectra_lines &lines, int k, int *z, int *y) {
  const int64_t line = ((int64_t)blockIdx.x << x.lines_log) + k;
  *z = (int)quotient(line, lines.rows);
  *y = lines.first + (int)(line - (int64_t)*z * lines.rows);
  return *z < lines.planes;
}

/* Transforms lines along x. load(z, y, x) gives points. */
template <class Load>
__global__ void __launch_bounds__(SPECTRA_THREADS)
    transform_rows(spectra_axis x, spectra_points to, spectra_lines lines, Load load) {
  extern __shared__ float2 shared[];
  float2 *tile = begin_lines(x, shared);
  int z, y;
  for (int k = 0; k < 1 << x.lines_log; k++)
    if (find_line(x, lines, k, &z, &y))
      for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS)
        tile[i * x.pitch + k] = load(z, y, i);
  __syncthreads();
  transform_lines<FORWARD>(x, shared, tile);
  for (int k = 0; k < 1 << x.lines_log; k++)
    if (find_line(x, lines, k, &z, &y))
      for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS)
        to.points[((int64_t)z * to.size_y + y) * to.pitch + i] = tile[i * x.pitch + k];
}

/* Transforms lines along x back. store(z, y, x, point, sums) takes points, and adds to the sums of a thread, which become
 * sums of a block: totals[block][SUMS]. */
template <int SUMS, class Store>
__global__ void __launch_bounds__(SPECTRA_THREADS)
    transform_rows_back(spectra_axis x, spectra_points from, spectra_lines lines, Store store, double *totals) {
  extern __shared__ float2 shared[];
  __shared__ double warps[SPECTRA_THREADS / LANES][SUMS > 0 ? SUMS : 1];
  float2 *tile = begin_lines(x, shared);
  double sums[SUMS > 0 ? SUMS : 1] = {};
  int z, y;
  for (int k = 0; k < 1 << x.lines_log; k++)
    if (find_line(x, lines, k, &z, &y))
      for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS)
        tile[i * x.pitch + k] = from.points[((int64_t)z * from.size_y + y) * from.pitch + i];
  __syncthreads();
  transform_lines<BACKWARD>(x, shared, tile);
  for (int k = 0; k < 1 << x.lines_log; k++)
    if (find_line(x, lines, k, &z, &y))
      for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS)
        store(z, y, i, tile[i * x.pitch + k], sums);
  UNROLLED_FOR (int s = 0; s < SUMS; s++) {
    for (int distance = LANES / 2; distance > 0; distance /= 2)
      sums[s] += __shfl_down_sync(~0u, sums[s], distance);
    if (threadIdx.x % LANES == 0)
      warps[threadIdx.x / LANES][s] = sums[s];
  }
  __syncthreads();
  if ((int)threadIdx.x < SUMS) {
    double sum = 0;
    for (int w = 0; w < SPECTRA_THREADS / LANES; w++)
      sum += warps[w][threadIdx.x];
    totals[(int64_t)blockIdx.x * SUMS + threadIdx.x] = sum;
  }
}

/* Lines across, along y or z: point i of a line is `distance` after point i - 1. `across` lines lie side by side, `outer`
 * times, `apart` points from each other. */
struct spectra_across {
  int64_t distance, across, apart;
  int used, first, stored; /* points from `used` on are 0; first .. first + stored - 1 are stored */
};

/* What the spectrum is multiplied by: h, conj(h), or conj(h) / (|h|^2 + noise); times scale. */
struct spectra_product {
  const float2 *h;
  int conjugate; /* 0, 1; 2: Wiener's */
  float noise, scale;
};

DEVICE float2 product_of(const spectra_product &product, float2 point, float2 h) {
  float scale = product.scale;
  if (product.conjugate == 2)
    scale /= fmaf(h.x, h.x, fmaf(h.y, h.y, product.noise));
  h = make_float2(h.x * scale, h.y * scale);
  return product.conjugate ? times_conjugate(point, h) : times(point, h);
}

enum spectra_way { SPECTRA_FORWARD, SPECTRA_BACKWARD, SPECTRA_MULTIPLY };

template <spectra_way WAY>
__global__ void __launch_bounds__(SPECTRA_THREADS)
    transform_across(spectra_axis axis, spectra_across a, float2 *points, spectra_product product) {
  extern __shared__ float2 shared[];
  float2 *tile = begin_lines(axis, shared);
  const int64_t tiles = ((a.across - 1) >> axis.lines_log) + 1, outer = quotient(blockIdx.x, tiles);
  const int lane = (int)threadIdx.x & ((1 << axis.lines_log) - 1), row = (int)threadIdx.x >> axis.lines_log;
  const int64_t at = ((blockIdx.x - outer * tiles) << axis.lines_log) + lane, first = outer * a.apart + at;
  const int step = SPECTRA_THREADS >> axis.lines_log;
  const bool there = at < a.across;
  UNROLLED_4_FOR (int i = row; i < axis.size; i += step)
    tile[i * axis.pitch + lane] = there && i < a.used ? points[first + i * a.distance] : make_float2(0, 0);
  __syncthreads();
  if (WAY != SPECTRA_BACKWARD)
    transform_lines<FORWARD>(axis, shared, tile);
  if (WAY == SPECTRA_MULTIPLY) {
    UNROLLED_4_FOR (int i = row; there && i < axis.size; i += step) {
      float2 *point = tile + i * axis.pitch + lane;
      *point = product_of(product, *point, product.h[first + i * a.distance]);
    }
    __syncthreads();
  }
  if (WAY != SPECTRA_FORWARD)
    transform_lines<BACKWARD>(axis, shared, tile);
  UNROLLED_4_FOR (int i = a.first + row; there && i < a.first + a.stored; i += step)
    points[first + i * a.distance] = tile[i * axis.pitch + lane];
}

struct spectra_load_points {
  spectra_points from;
  DEVICE float2 operator()(int z, int y, int x) const {
    return from.points[((int64_t)z * from.size_y + y) * from.pitch + x];
  }
};

/* Puts taps where their centre lies at the origin. */
__global__ void place_taps(const float *taps, int3 size, int3 centre, int3 sizes, spectra_points to) {
  const int i = (int)(blockIdx.x * SPECTRA_THREADS + threadIdx.x);
  if (i >= size.x * size.y * size.z)
    return;
  const int z = (i / size.x / size.y + sizes.z - centre.z) % sizes.z, y = (i / size.x % size.y + sizes.y - centre.y) % sizes.y;
  const int x = (i % size.x + sizes.x - centre.x) % sizes.x;
  to.points[((int64_t)z * to.size_y + y) * to.pitch + x] = make_float2(taps[i], 0);
}

/* ---- The host ---- */

/* Spectra of taps, and room for those of images, in memory of a GPU. Work goes into one stream. */
struct spectra {
  gconv_fft_mixed along[3]; /* z, y, x; owned */
  spectra_axis axes[3];
  float2 *points, *h, *twiddles; /* owned */
  int pitch;
  cudaStream_t stream;
};

inline void free_spectra(spectra *s) {
  for (gconv_fft_mixed &along : s->along)
    gconv_release(along.twiddles);
  cudaFree(s->points);
  cudaFree(s->h);
  cudaFree(s->twiddles);
  *s = {};
}

inline size_t shared_bytes(const spectra_axis &axis) {
  return ((size_t)axis.size + axis.size % 2 + (size_t)axis.size * axis.pitch) * sizeof(float2);
}

/* Sets how many lines a block transforms: as many as let several blocks share a multiprocessor, or else one. */
inline gconv_status make_axis(const gconv_fft_mixed *along, bool rows, const float2 *twiddles, spectra_axis *axis) {
  axis->size = (int)along->size;
  axis->twiddles = twiddles;
  for (int k = 0; k < SPECTRA_STAGES - 1 && along->radices[k] > 0; k++)
    axis->radices[k] = (signed char)along->radices[k];
  for (axis->lines_log = rows ? 3 : 5; axis->lines_log >= 0; axis->lines_log--) {
    axis->pitch = (1 << axis->lines_log) + (rows && axis->lines_log > 0); /* rows change places with columns */
    if (shared_bytes(*axis) <= (56 << 10) || (axis->lines_log == 0 && shared_bytes(*axis) <= shared_limit() - 1024))
      return GCONV_OK;
  }
  return gconv_fail(GCONV_UNSUPPORTED, "a GPU transforms lines of at most %zu points, and these have %d: take the device cpu",
                    (shared_limit() - 1024) / 16, axis->size);
}

template <spectra_way WAY>
gconv_status launch_across(const spectra *s, int axis, const spectra_across &a, int outer, float2 *points,
                           const spectra_product &product) {
  const spectra_axis &along = s->axes[axis];
  const size_t bytes = shared_bytes(along);
  const int64_t blocks = outer * (((a.across - 1) >> along.lines_log) + 1);
  GCONV_TRY(allow_shared(transform_across<WAY>, (int64_t)bytes));
  transform_across<WAY><<<(unsigned)blocks, SPECTRA_THREADS, bytes, s->stream>>>(along, a, points, product);
  return CUDA_STATUS(cudaGetLastError());
}

inline spectra_across along_y(const spectra *s, int used, int first, int stored) {
  return {s->pitch, s->pitch, (int64_t)s->axes[1].size * s->pitch, used, first, stored};
}
inline spectra_across along_z(const spectra *s, int used, int stored) {
  return {(int64_t)s->axes[1].size * s->pitch, (int64_t)s->axes[1].size * s->pitch, 0, used, 0, stored};
}

inline int64_t row_blocks(const spectra *s, const spectra_lines &lines) {
  return (((int64_t)lines.rows * lines.planes - 1) >> s->axes[2].lines_log) + 1;
}

template <class Load>
gconv_status launch_rows(const spectra *s, float2 *points, const spectra_lines &lines, const Load &load) {
  const size_t bytes = shared_bytes(s->axes[2]);
  GCONV_TRY(allow_shared(transform_rows<Load>, (int64_t)bytes));
  transform_rows<Load><<<(unsigned)row_blocks(s, lines), SPECTRA_THREADS, bytes, s->stream>>>(
      s->axes[2], {points, s->pitch, s->axes[1].size}, lines, load);
  return CUDA_STATUS(cudaGetLastError());
}

/* Loads lines, multiplies spectra, and stores lines. totals: [row_blocks(s, out)][SUMS]. */
template <int SUMS, class Load, class Store>
gconv_status run_spectra(const spectra *s, const spectra_lines &in, const Load &load, const spectra_product &product,
                         const spectra_lines &out, const Store &store, double *totals) {
  const size_t bytes = shared_bytes(s->axes[2]);
  const int used = in.first + in.rows;
  GCONV_TRY(launch_rows(s, s->points, in, load));
  if (s->axes[0].size > 1) {
    GCONV_TRY(launch_across<SPECTRA_FORWARD>(s, 1, along_y(s, used, 0, s->axes[1].size), in.planes, s->points, product));
    GCONV_TRY(launch_across<SPECTRA_MULTIPLY>(s, 0, along_z(s, in.planes, out.planes), 1, s->points, product));
    GCONV_TRY(launch_across<SPECTRA_BACKWARD>(s, 1, along_y(s, s->axes[1].size, out.first, out.rows), out.planes, s->points,
                                              product));
  } else
    GCONV_TRY(launch_across<SPECTRA_MULTIPLY>(s, 1, along_y(s, used, out.first, out.rows), 1, s->points, product));
  GCONV_TRY(allow_shared(transform_rows_back<SUMS, Store>, (int64_t)bytes));
  transform_rows_back<SUMS><<<(unsigned)row_blocks(s, out), SPECTRA_THREADS, bytes, s->stream>>>(
      s->axes[2], {s->points, s->pitch, s->axes[1].size}, out, store, totals);
  return CUDA_STATUS(cudaGetLastError());
}

/* Makes the spectrum of taps in host memory. sizes: planes, rows, columns. */
inline gconv_status make_spectrum(spectra *s, const gconv_device *device, const float *taps, const int32_t size[3],
                                  const int32_t centre[3]) {
  const int z = s->axes[0].size, y = s->axes[1].size, count = size[0] * size[1] * size[2];
  const size_t points = (size_t)z * y * s->pitch * sizeof(float2);
  float *there = (float *)s->points;
  const spectra_points h = {s->h, s->pitch, y};
  (void)device;
  CUDA_TRY(cudaMemsetAsync(s->points, 0, points, s->stream));
  CUDA_TRY(cudaMemsetAsync(s->h, 0, points, s->stream));
  CUDA_TRY(cudaMemcpyAsync(there, taps, (size_t)count * sizeof *taps, cudaMemcpyHostToDevice, s->stream));
  place_taps<<<(unsigned)((count - 1) / SPECTRA_THREADS + 1), SPECTRA_THREADS, 0, s->stream>>>(
      there, make_int3(size[2], size[1], size[0]), make_int3(centre[2], centre[1], centre[0]),
      make_int3(s->axes[2].size, y, z), h);
  GCONV_TRY(launch_rows(s, s->h, {0, y, z}, spectra_load_points{h}));
  GCONV_TRY(launch_across<SPECTRA_FORWARD>(s, 1, along_y(s, y, 0, y), z, s->h, {}));
  if (z > 1)
    GCONV_TRY(launch_across<SPECTRA_FORWARD>(s, 0, along_z(s, z, z), 1, s->h, {}));
  CUDA_TRY(cudaMemsetAsync(s->points, 0, points, s->stream));
  return CUDA_STATUS(cudaStreamSynchronize(s->stream));
}

/* Makes spectra of sizes that are not below `least`: planes, rows, columns. free_spectra() frees them, also on failure. */
inline gconv_status make_spectra_of(const gconv_device *device, const size_t least[3], const float *taps,
                                    const int32_t size[3], const int32_t centre[3], cudaStream_t stream, spectra *s) {
  size_t twiddles = 0;
  *s = {};
  s->stream = stream;
  for (int i = 0; i < 3; i++) {
    if (least[i] > 1 << 20)
      return gconv_fail(GCONV_TOO_LARGE, "a GPU restores images of up to %d rows and columns: take the device cpu", 1 << 20);
    GCONV_TRY(gconv_fft_mixed_make(least[i], &s->along[i]));
    twiddles += s->along[i].size;
  }
  GCONV_TRY(gconv_cuda_allocate(device, twiddles * sizeof(float2), "twiddle factors", (void **)&s->twiddles));
  float2 *at = s->twiddles;
  for (int i = 0; i < 3; at += s->along[i++].size) {
    GCONV_TRY(gconv_cuda_upload(at, s->along[i].twiddles, s->along[i].size * sizeof(float2)));
    GCONV_TRY(make_axis(&s->along[i], i == 2, at, &s->axes[i]));
  }
  s->pitch = (s->axes[2].size + 15) / 16 * 16;
  const size_t bytes[] = {s->along[0].size, s->along[1].size, (size_t)s->pitch, sizeof(float2)};
  const size_t all = gconv_checked_product(4, bytes);
  GCONV_TRY(gconv_cuda_allocate(device, all, "the spectrum of the image", (void **)&s->points));
  GCONV_TRY(gconv_cuda_allocate(device, all, "the spectrum of the PSF", (void **)&s->h));
  return make_spectrum(s, device, taps, size, centre);
}

} // namespace
