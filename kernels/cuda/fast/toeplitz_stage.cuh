/* SPDX-License-Identifier: MIT */
/* toeplitz, for all filters that toeplitz_walk.cuh does not take: a block stages the input of its tiles in shared memory
 * once, before the first product. */
#pragma once

#include "toeplitz_rows.cuh"

namespace {

/* Returns how many floats a warp's stage of `rows` rows has: sums, then as many combined values if filters are combined. */
DEVICE int stage_floats(const banded_arguments &a, int rows) {
  return rows * TILE * (a.combined ? 2 : 1);
}

/* A lane's part of sixteen windows of 32 samples of P bytes: for each byte of a sample, the words that multiply() takes. */
template <int P> struct windows {
  uint32_t byte[P][4];

  /* Loads the words from a staged row. `from` is the lane's first sample. */
  DEVICE explicit windows(const uint8_t *from) {
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      const uint8_t *at = from + P * (HALF * (i % 2) + 16 * (i / 2));
      if constexpr (P == 1) {
        byte[0][i] = *(const uint32_t *)at;
      } else {
        const uint2 samples = *(const uint2 *)at;
        byte[0][i] = __byte_perm(samples.x, samples.y, 0x6420);
        byte[1][i] = __byte_perm(samples.x, samples.y, 0x7531);
      }
    }
  }

  /* sums[p + d] += byte p of the windows * digit d of the taps, for all p and d. */
  template <int D> DEVICE void multiply_all(const uint2 (&band)[D], int (&sums)[D + P - 1][4]) const {
    UNROLLED_FOR (int p = 0; p < P; p++)
      UNROLLED_FOR (int d = 0; d < D; d++)
        multiply(sums[p + d], byte[p][0], byte[p][1], byte[p][2], byte[p][3], band[d].x, band[d].y);
  }
};

/* A block has four warps, one above the other. Each computes X tiles side by side and Y rows. The block stages the input of
 * all warps. Then, for every 32 samples of the windows, each warp goes down the rows of input. It multiplies each input row
 * by Y rows of the filter. Only one of these is new in each step: their bands rotate through registers. */
template <class In, int D> struct stager {
  static constexpr int P = sizeof(In), N = D + P - 1, X = P == 1 ? 2 : 1, Y = 4;
  /* The number of blocks for whose registers a multiprocessor must have room. */
  static constexpr int BLOCKS = D == 1 ? (P == 1 ? 7 : 6) : P == 1 ? 3 : 4;

  /* Returns how many rows are staged for a filter of `rows` rows. The last few may be read, but are not used. */
  static __host__ __device__ int staged_rows(int rows) {
    return (WARPS - 1) * Y + (rows + 2 * Y - 2) / Y * Y;
  }

  /* Returns the bytes for the places of samples. */
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

  /* Adds Y rows of the input, from `input` on, times rows m .. of the filter and the rows before m, whose bands are in
   * `recent`. If not INNER, some of these rows may not exist. */
  template <bool INNER>
  static DEVICE void add_rows(const uint2 *bands, const uint8_t *input, int pitch, int m, int rows, uint2 (&recent)[Y][D],
                              int (&sums)[X][Y][N][4]) {
    UNROLLED_FOR (int u = 0; u < Y; u++) {
      if (INNER || m + u < rows)
        UNROLLED_FOR (int d = 0; d < D; d++)
          recent[u][d] = __ldg(bands + (u * D + d) * LANES);
      UNROLLED_FOR (int i = 0; i < X; i++) {
        const windows<P> x(input + u * pitch + i * TILE * P);
        UNROLLED_FOR (int j = 0; j < Y; j++)
          if (INNER || (m + u >= j && m + u - j < rows))
            x.multiply_all(recent[(u - j + Y) % Y], sums[i][j]);
      }
    }
  }

  /* Adds the products of a filter with 32 samples of the windows. */
  static DEVICE void add(const uint2 *bands, const uint8_t *input, int pitch, int rows, int (&sums)[X][Y][N][4]) {
    uint2 recent[Y][D];
    ROLLED_FOR (int m = 0; m < rows + Y - 1; m += Y, bands += Y * D * LANES, input += Y * pitch)
      if (m > 0 && m + Y <= rows)
        add_rows<true>(bands, input, pitch, m, rows, recent, sums);
      else
        add_rows<false>(bands, input, pitch, m, rows, recent, sums);
  }

  /* Computes filter k at rows p, p + step .. */
  static DEVICE void make_rows(const banded_arguments &a, const outlet &to, const uint8_t *input, float *stage, int k,
                               int p) {
    const uint2 *bands = (const uint2 *)a.bands + (int64_t)k * a.rows * D * (a.words / 2) * LANES + threadIdx.x % LANES;
    int sums[X][Y][N][4] = {};
    ROLLED_FOR (int w = 0; w < a.words; w += 2)
      add(bands + w / 2 * (a.rows * D * LANES), input + 16 * w * P, pitch_of(X, a.words, P), a.rows, sums);
    finish_rows<In, false>(a, to, k, p, a.problem.out_height, sums, stage);
  }
};

/* Grid: x counts groups of X tiles of a row, y groups of 16 rows of all phases of the dilation, z planes of all images. */
template <class In, int D>
__global__ void __launch_bounds__(WARPS *LANES, stager<In, D>::BLOCKS) staged(const __grid_constant__ banded_arguments a) {
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
