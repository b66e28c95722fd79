/* SPDX-License-Identifier: MIT */
/*
 * Products of spectra in three dimensions or two, of sizes that are products of 2, 3 and 5 (kernels/cpu/fft_columns.h).
 *
 * Points [z][y][x] hold two real images, as real and imaginary parts. Multiplying by the spectrum of real taps does not mix
 * the images. A block transforms some lines in shared memory, by stages in place, which leave frequencies in digit-reversed
 * order; backward stages read that order. One kernel transforms the last axis, multiplies, and transforms back. So a
 * convolution in three dimensions reads and writes the points four times, in two dimensions three times: memory bounds it.
 * Lines of zeros, and lines whose results are not needed, are left out.
 */
#pragma once

#include "../core/device.cuh"
#include "fft_registers.cuh"

namespace {

enum { SPECTRA_THREADS = 256, SPECTRA_STAGES = 24, SPECTRA_ROWS = 8 /* lines along x of a block, at most */ };

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
template <int RADIX, int SIGN>
DEVICE void run_stage(const spectra_axis &axis, int part, const float2 *twiddles, float2 *tile) {
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

/* Transforms the lines of a tile. All threads of the block call this, after a barrier that follows their stores to the tile.
 * It ends with a barrier, too. */
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

/* Copies the twiddle factors to shared memory. Returns the tile, which lies after them. */
DEVICE float2 *begin_lines(const spectra_axis &axis, float2 *shared) {
  for (int i = (int)threadIdx.x; i < axis.size; i += SPECTRA_THREADS)
    shared[i] = axis.twiddles[i];
  return shared + axis.size + axis.size % 2;
}

/* ---- Kernels ---- */

/* A set of lines along x: the rows first .. first + rows - 1 of planes 0 .. planes - 1. */
struct spectra_lines {
  int first, rows, planes;
};

/* Points in rows that are `pitch` points apart. Row y of plane z is row number y + size_y * z. */
struct spectra_points {
  float2 *points;
  int pitch, size_y;
};

/* The lines along x of a block: line k is row y[k] of plane z[k]. If z[k] < 0, there is no line k. */
struct spectra_rows {
  int z[SPECTRA_ROWS], y[SPECTRA_ROWS];
  DEVICE spectra_rows(const spectra_axis &x, const spectra_lines &lines) {
    UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS; k++) {
      const int64_t line = ((int64_t)blockIdx.x << x.lines_log) + k;
      z[k] = (int)quotient(line, lines.rows);
      y[k] = lines.first + (int)(line - (int64_t)z[k] * lines.rows);
      if (k >> x.lines_log > 0 || z[k] >= lines.planes)
        z[k] = -1;
    }
  }
};

/* Transforms lines along x. load(z, y, x) returns a point. Loads come before stores, so that many loads are under way. */
template <class Load>
__global__ void __launch_bounds__(SPECTRA_THREADS)
    transform_rows(spectra_axis x, spectra_points to, spectra_lines lines, Load load) {
  extern __shared__ float2 shared[];
  float2 *tile = begin_lines(x, shared);
  const spectra_rows rows(x, lines);
  for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS) {
    float2 points[SPECTRA_ROWS];
    UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS; k++)
      points[k] = rows.z[k] >= 0 ? load(rows.z[k], rows.y[k], i) : make_float2(0, 0);
    UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS; k++)
      if (rows.z[k] >= 0)
        tile[i * x.pitch + k] = points[k];
  }
  __syncthreads();
  transform_lines<FORWARD>(x, shared, tile);
  for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS)
    UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS; k++)
      if (rows.z[k] >= 0)
        to.points[((int64_t)rows.z[k] * to.size_y + rows.y[k]) * to.pitch + i] = tile[i * x.pitch + k];
}

/* Transforms lines along x back. For each point, store.fetch(z, y, x) loads a value that the caller needs, then store(z, y,
 * x, point, fetched, sums) takes the point and adds to the thread's sums. The sums of a block go to totals[block][SUMS]. */
template <int SUMS, class Store>
__global__ void __launch_bounds__(SPECTRA_THREADS)
    transform_rows_back(spectra_axis x, spectra_points from, spectra_lines lines, Store store, double *totals) {
  extern __shared__ float2 shared[];
  __shared__ double warps[SPECTRA_THREADS / LANES][SUMS > 0 ? SUMS : 1];
  float2 *tile = begin_lines(x, shared);
  double sums[SUMS > 0 ? SUMS : 1] = {};
  const spectra_rows rows(x, lines);
  for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS) {
    float2 points[SPECTRA_ROWS];
    UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS; k++)
      if (rows.z[k] >= 0)
        points[k] = from.points[((int64_t)rows.z[k] * from.size_y + rows.y[k]) * from.pitch + i];
    UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS; k++)
      if (rows.z[k] >= 0)
        tile[i * x.pitch + k] = points[k];
  }
  __syncthreads();
  transform_lines<BACKWARD>(x, shared, tile);
  for (int i = (int)threadIdx.x; i < x.size; i += SPECTRA_THREADS)
    UNROLLED_FOR (int part = 0; part < SPECTRA_ROWS; part += SPECTRA_ROWS / 2) { /* all at once need too many registers */
      decltype(store.fetch(0, 0, 0)) fetched[SPECTRA_ROWS / 2];
      UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS / 2; k++)
        if (rows.z[part + k] >= 0)
          fetched[k] = store.fetch(rows.z[part + k], rows.y[part + k], i);
      UNROLLED_FOR (int k = 0; k < SPECTRA_ROWS / 2; k++)
        if (rows.z[part + k] >= 0)
          store(rows.z[part + k], rows.y[part + k], i, tile[i * x.pitch + part + k], fetched[k], sums);
    }
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

/* Lines along y or z: point i of a line is `distance` points after point i - 1. `across` lines lie side by side. Such groups
 * of lines are `apart` points from each other. */
struct spectra_across {
  int64_t distance, across, apart;
  int used, first, stored; /* points from `used` on are 0; first .. first + stored - 1 are stored */
};

/* The factor of a spectrum: h, conj(h), or conj(h) / (|h|^2 + noise), times scale. */
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
  enum { BATCH = 8 };
  float2 *tile = begin_lines(axis, shared), batch[BATCH];
  const int64_t tiles = ((a.across - 1) >> axis.lines_log) + 1, outer = quotient(blockIdx.x, tiles);
  const int lane = (int)threadIdx.x & ((1 << axis.lines_log) - 1), row = (int)threadIdx.x >> axis.lines_log;
  const int64_t at = ((blockIdx.x - outer * tiles) << axis.lines_log) + lane, first = outer * a.apart + at;
  const int step = SPECTRA_THREADS >> axis.lines_log;
  const bool there = at < a.across;
  for (int from = row; from < axis.size; from += BATCH * step) {
    UNROLLED_FOR (int k = 0; k < BATCH; k++) {
      const int i = from + k * step;
      batch[k] = there && i < a.used ? points[first + i * a.distance] : make_float2(0, 0);
    }
    UNROLLED_FOR (int k = 0; k < BATCH; k++)
      if (from + k * step < axis.size)
        tile[(from + k * step) * axis.pitch + lane] = batch[k];
  }
  __syncthreads();
  if (WAY != SPECTRA_BACKWARD)
    transform_lines<FORWARD>(axis, shared, tile);
  if (WAY == SPECTRA_MULTIPLY) {
    for (int from = row; there && from < axis.size; from += BATCH * step) {
      UNROLLED_FOR (int k = 0; k < BATCH; k++)
        if (from + k * step < axis.size)
          batch[k] = product.h[first + (from + k * step) * a.distance];
      UNROLLED_FOR (int k = 0; k < BATCH; k++) {
        float2 *point = tile + (from + k * step) * axis.pitch + lane;
        if (from + k * step < axis.size)
          *point = product_of(product, *point, batch[k]);
      }
    }
    __syncthreads();
  }
  if (WAY != SPECTRA_FORWARD)
    transform_lines<BACKWARD>(axis, shared, tile);
  UNROLLED_8_FOR(int i = a.first + row; there && i < a.first + a.stored; i += step)
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
  const int z = (i / size.x / size.y + sizes.z - centre.z) % sizes.z,
            y = (i / size.x % size.y + sizes.y - centre.y) % sizes.y;
  const int x = (i % size.x + sizes.x - centre.x) % sizes.x;
  to.points[((int64_t)z * to.size_y + y) * to.pitch + x] = make_float2(taps[i], 0);
}

} // namespace
