/* SPDX-License-Identifier: MIT */
/*
 * Recomputes unsure kernel values in float64 (rows_int8.cu). A value is unsure if the error bound of its sum by digits
 * allows two float32 results. It is NaN until it is recomputed. `unsure` has four numbers for each tile of TILE rows and
 * TILE points: their sum is the number of unsure values of the tile.
 */
#pragma once

#include "digits.cuh"
#include "tiles.cuh"

namespace svm_mend {

using svm_digits::TILE;

/* If a tile has more than MOST_UNSURE unsure values, all of its values are recomputed. */
enum { MOST_UNSURE = 128, MEND_THREADS = 128 };

/* Returns the number of unsure values in the tile of a block. */
__device__ inline uint32_t unsure_of(const uint32_t *unsure) {
  const uint4 four = ((const uint4 *)unsure)[blockIdx.x];
  return four.x + four.y + four.z + four.w;
}

/* Returns the product x y, by a warp: the sum of 32 partial sums, each a chain. */
__device__ inline double dot(const float *x, const float *y, size_t pitch) {
  double sum = 0;
  UNROLLED_8_FOR(size_t c = threadIdx.x % 32; c < pitch / 4; c += 32) {
    const float4 a = ((const float4 *)x)[c], b = ((const float4 *)y)[c];
    sum = fma((double)a.x, (double)b.x, sum);
    sum = fma((double)a.y, (double)b.y, sum);
    sum = fma((double)a.z, (double)b.z, sum);
    sum = fma((double)a.w, (double)b.w, sum);
  }
  UNROLLED_FOR (int by = 16; by > 0; by /= 2)
    sum += __shfl_xor_sync(~0u, sum, by);
  return sum;
}

/* Returns the product x y as one chain, from the first column to the last. Products of float32 are exact in float64. */
__device__ inline double chain(const float *x, const float *y, size_t pitch) {
  double sum = 0;
  UNROLLED_2_FOR (size_t first = 0; first < pitch; first += 32) {
    const size_t c = first + threadIdx.x % 32;
    const double product = c < pitch ? (double)x[c] * (double)y[c] : 0;
    UNROLLED_FOR (int i = 0; i < 32; i++)
      sum += __shfl_sync(~0u, product, i);
  }
  return sum;
}

/* Returns the value of a row and a point, by a warp. dot() differs from chain() by at most 2^-53 |x| |y| for each fused
 * multiply-add and each sum. If both ends of this interval round to one float32, this is the value. Else chain() finds
 * it. */
__device__ inline float mend(const gconv_svm_formula &formula, const gconv_svm_gpu_cases &cases, size_t row, size_t point) {
  const double row_norm = cases.norms[row], point_norm = cases.norms[point];
  const float *x = cases.numbers + row * cases.pitch, *y = cases.numbers + point * cases.pitch;
  const double difference = point_norm + row_norm - 2.0 * dot(x, y, cases.pitch);
  const double away =
      (1.125 * (double)cases.pitch + 32) * 0x1p-52 * sqrt(row_norm) * sqrt(point_norm) + 0x1p-50 * (row_norm + point_norm);
  const double exponent = (difference > 0.0 ? difference : 0.0) * -formula.gamma, value = svm_tiles::exponential(exponent);
  const double by = value * (1.125 * formula.gamma * away + 0x1p-43);
  if (formula.gamma * away < 0x1p-20 && exponent > -86.0 && (float)(value - by) == (float)(value + by))
    return (float)value;
  float values[2];
  const double sum = chain(x, y, cases.pitch);
  svm_tiles::finish<false, float>(formula, {point_norm, point_norm}, row_norm, {sum, sum}, NULL, values);
  return values[0];
}

/* Recomputes the unsure values of a tile. A block lists their places, and its warps share them. */
__global__ void __launch_bounds__(MEND_THREADS, 8)
    mend_values(gconv_svm_formula formula, uint32_t high, const uint32_t *unsure, gconv_svm_gpu_cases cases,
                const uint32_t *wanted, float *const *to, size_t row_count, const uint32_t *members, size_t count) {
  enum { QUADS = TILE / 4, AT_ONCE = MEND_THREADS / QUADS };
  __shared__ uint32_t found, places[MOST_UNSURE];
  const uint32_t all = unsure_of(unsure);
  if (all == 0 || all > MOST_UNSURE)
    return;
  const size_t first_row = (size_t)(blockIdx.x % high) * TILE, first_point = (size_t)(blockIdx.x / high) * TILE;
  const uint32_t quad = threadIdx.x % QUADS * 4;
  if (threadIdx.x == 0)
    found = 0;
  __syncthreads();
  UNROLLED_FOR (uint32_t row = threadIdx.x / QUADS; row < TILE; row += AT_ONCE)
    if (first_row + row < row_count && first_point + quad < count) {
      const float4 four = *(const float4 *)(to[first_row + row] + first_point + quad);
      const float values[] = {four.x, four.y, four.z, four.w};
      UNROLLED_FOR (uint32_t i = 0; i < 4; i++)
        if (isnan(values[i]))
          places[atomicAdd(&found, 1)] = row * TILE + quad + i;
    }
  __syncthreads();
  for (uint32_t i = threadIdx.x / 32; i < all; i += MEND_THREADS / 32) {
    const size_t row = first_row + places[i] / TILE, point = first_point + places[i] % TILE;
    const float value = mend(formula, cases, wanted[row], members[point]);
    if (threadIdx.x % 32 == 0)
      to[row][point] = value;
  }
}

/* Recomputes all values of a tile with more than MOST_UNSURE unsure values, as rows.cu does. */
__global__ void __launch_bounds__(svm_tiles::THREADS, svm_tiles::blocks<false>())
    mend_tiles(gconv_svm_formula formula, uint32_t high, const uint32_t *unsure, gconv_svm_gpu_cases cases,
               const uint32_t *wanted, float *const *to, size_t row_count, const uint32_t *members, size_t count,
               size_t padded) {
  if (unsure_of(unsure) <= MOST_UNSURE)
    return;
  const size_t row = (size_t)(blockIdx.x % high) * TILE, point = (size_t)(blockIdx.x / high) * TILE;
  svm_tiles::compute<false, float>(formula, {cases, wanted, row, row_count}, {cases, members, point, count},
                                   [=](int r, int p, float first, float second) {
                                     if (point + p < padded)
                                       *(float2 *)(to[row + r] + point + p) = make_float2(first, second);
                                   });
}

} // namespace svm_mend
