/* SPDX-License-Identifier: MIT */
/* toeplitz, all other filters: a block stages the input of its tiles in shared memory once, before the first product. */
#pragma once

#include "toeplitz_rows.cuh"

namespace {

/* A block has four warps, one above the other. Each makes X tiles side by side and Y rows. The block stages the input for
 * all of them. Then, for every 32 samples of the windows, it goes down the rows of input. Each input row is used with Y rows
 * of the filter. Only one of these is new in each step; their bands rotate through registers. */
template <class In, int D> struct stager {
  static constexpr int P = sizeof(In), N = D + P - 1, X = P == 1 ? 2 : 1, Y = 4;

  /* Rows that are staged for a filter of so many rows. The last few may be read, but are not used. */
  static __host__ __device__ int staged_rows(int rows) {
    return (WARPS - 1) * Y + (rows + 2 * Y - 2) / Y * Y;
  }

  /* Bytes for the places of samples. */
  static __host__ __device__ int place_bytes(int words) {
    return pitch_of(X, words, P) / P * (int)sizeof(int);
  }

  static DEVICE void stage_input(const banded_arguments &a, const uint8_t *in, int tile, int y, uint8_t *to) {
    const int chunks = pitch_of(X, a.words, P) / CHUNK;
    int *places = (int *)(to + staged_rows(a.rows) * chunks * CHUNK);
    const row_source source = make_source<In, WARPS * LANES>(a, in, tile + a.left - lead_of<In>(a) / P, chunks, places);
    __syncthreads();
    stage_rows<In, WARPS * LANES>(a, source, y, staged_rows(a.rows), chunks, to);
    commit_copies();
    await_copies<0>();
    __syncthreads();
  }

  static DEVICE void load_band(const uint32_t *from, uint32_t (&band)[D][2]) {
    UNROLLED_FOR (int d = 0; d < D; d++) {
      const uint2 words = __ldg((const uint2 *)from + d * LANES);
      band[d][0] = words.x;
      band[d][1] = words.y;
    }
  }

  /* Adds Y rows of the input, from `input` on, with rows m .. of the filter and, in `recent`, the rows before. If not INNER,
   * some of these rows may not exist. */
  template <bool INNER>
  static DEVICE void add_rows(const uint32_t *bands, const uint8_t *input, int pitch, int m, int rows,
                              uint32_t (&recent)[Y][D][2], int (&sums)[X][Y][N][4]) {
    UNROLLED_FOR (int u = 0; u < Y; u++) {
      windows<P, 2> x[X];
      if (INNER || m + u < rows)
        load_band(bands + u * (D * 2 * LANES), recent[u]);
      UNROLLED_FOR (int i = 0; i < X; i++)
        load_windows(input + u * pitch + i * TILE * P, x[i]);
      UNROLLED_FOR (int j = 0; j < Y; j++)
        if (INNER || (m + u >= j && m + u - j < rows))
          UNROLLED_FOR (int i = 0; i < X; i++)
            add_products<P, 2, D>(x[i], recent[(u - j + Y) % Y], sums[i][j]);
    }
  }

  /* Adds the products of a filter with 32 samples of the windows. */
  static DEVICE void add(const uint32_t *bands, const uint8_t *input, int pitch, int rows, int (&sums)[X][Y][N][4]) {
    uint32_t recent[Y][D][2];
    ROLLED_FOR (int m = 0; m < rows + Y - 1; m += Y, bands += Y * (D * 2 * LANES), input += Y * pitch)
      if (m > 0 && m + Y <= rows)
        add_rows<true>(bands, input, pitch, m, rows, recent, sums);
      else
        add_rows<false>(bands, input, pitch, m, rows, recent, sums);
  }

  /* Makes filter k at rows p, p + step .. */
  static DEVICE void make_rows(const banded_arguments &a, const outlet &to, const uint8_t *input, float *stage, int k,
                               int p) {
    const int own = 4 * (threadIdx.x % LANES), step = a.problem.dilation_y;
    const uint32_t *bands = a.bands + (int64_t)k * a.rows * D * a.words * LANES + 2 * (threadIdx.x % LANES);
    const scaling s = a.scalings[k];
    int sums[X][Y][N][4] = {};
    ROLLED_FOR (int w = 0; w < a.words; w += 2)
      add(bands + w * (a.rows * D * LANES), input + 16 * w * P, pitch_of(X, a.words, P), a.rows, sums);
    __syncwarp();
    UNROLLED_FOR (int i = 0; i < X * Y; i++)
      stage_sums<false>(sums[i / Y][i % Y], stage + i * TILE);
    __syncwarp();
    ROLLED_FOR (int i = 0; i < X * Y; i++) {
      outlet tile = to;
      tile.first += i / Y * TILE;
      if (p + i % Y * step < a.problem.out_height)
        finish<In>(a, tile, k, p + i % Y * step, s, stage + i * TILE + own, stage + (X * Y + i) * TILE + own);
    }
  }
};

/* Floats of a warp's stage of so many rows: sums, then the same number of combined values, if there are any. */
DEVICE int stage_floats(const banded_arguments &a, int rows) {
  return rows * TILE * (a.combined ? 2 : 1);
}

/* Grid: x counts groups of X tiles of a row, y groups of 16 rows of all phases of the dilation, z planes of all images. */
template <class In, int D>
__global__ void __launch_bounds__(WARPS *LANES) staged(const __grid_constant__ banded_arguments a) {
  using large = stager<In, D>;
  extern __shared__ __align__(16) uint8_t memory[];
  const gconv_problem &problem = a.problem;
  const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, tile = blockIdx.x * (large::X * TILE);
  const int phase = blockIdx.y / a.strips, step = problem.dilation_y;
  const int top = phase + (blockIdx.y - phase * a.strips) * (WARPS * large::Y) * step;
  const plane_rows at = plane_of(a, (int)blockIdx.z);
  float *stage = (float *)memory + warp * stage_floats(a, large::X * large::Y);
  uint8_t *input = memory + sizeof(float) * WARPS * stage_floats(a, large::X * large::Y);
  large::stage_input(a, at.in, tile, top - problem.pad_top, input);
  const int pitch = pitch_of(large::X, a.words, large::P);
  const uint8_t *own = input + warp * large::Y * pitch + lead_of<In>(a) + (OUTPUTS * (lane / 4) + 4 * (lane % 4)) * large::P;
  const outlet to = make_outlet(a, at.in, at.out, tile);
  ROLLED_FOR (int k = 0; k < problem.filters; k++)
    large::make_rows(a, to, own, stage, k, top + warp * large::Y * step);
}

} // namespace
