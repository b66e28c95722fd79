/* SPDX-License-Identifier: MIT */
/* toeplitz: from sums of products to stored samples. */
#pragma once

#include "toeplitz_rows.cuh"

namespace {

/* ---- Results ---- */

/* The part of a lane in storing an output row of a warp: four neighbouring samples. */
struct outlet {
  const uint8_t *in; /* the plane from which kept alpha is read */
  uint8_t *out;      /* the plane of filter 0 */
  int first, samples;
};

__device__ __forceinline__ outlet make_outlet(const banded_arguments &a, const uint8_t *in, uint8_t *out, int tile) {
  return {in, out, tile + 4 * (int)(threadIdx.x % LANES), a.samples};
}

/* Joins the sums of the digits in float32, the lowest first. SMALL: the two lowest fit into one int32. */
template <bool SMALL, int N> __device__ __forceinline__ float join(const int (&sums)[N][4], int i) {
  if (SMALL && N == 2)
    return (float)(sums[N - 1][i] * 256 + sums[0][i]);
  float sum = (float)sums[N - 1][i];
  UNROLLED_FOR (int n = N - 2; n > (SMALL ? 1 : -1); n--)
    sum = fmaf(sum, 256.0f, (float)sums[n][i]);
  return SMALL && N > 2 ? fmaf(sum, 65536.0f, (float)(sums[N > 2][i] * 256 + sums[0][i])) : sum;
}

/* Writes the sums of a tile to shared memory, in the order of samples. */
template <bool SMALL, int N> __device__ __forceinline__ void stage_sums(const int (&sums)[N][4], float *stage) {
  const int lane = threadIdx.x % LANES;
  float2 *at = (float2 *)(stage + BLOCK * (lane / 4) + 2 * (lane % 4));
  at[0] = make_float2(join<SMALL>(sums, 0), join<SMALL>(sums, 1));
  at[HALF / 2] = make_float2(join<SMALL>(sums, 2), join<SMALL>(sums, 3));
}

/* Returns kept alpha of sample `sample` of row p, as kept_alpha() does. */
template <class In> __device__ float alpha_at(const arguments &a, const uint8_t *plane, int sample, int p) {
  const gconv_problem &problem = a.problem;
  const int y = index_of(problem.border, p - problem.pad_top + problem.anchor_y, problem.height);
  const int x = place_of(problem, sample + (problem.anchor_x - problem.pad_left) * problem.channels);
  float alpha = problem.border_level;
  if (y != GCONV_OUTSIDE && x != GCONV_OUTSIDE)
    alpha = ((const In *)(plane + y * a.in_row))[x];
  return gconv_scale(alpha, problem.epilogue.alpha_scale, problem.epilogue.alpha_scale_low, 0.0f);
}

/* Stores sample by sample, for outputs whose neighbours are not adjacent in memory. Leaves out alpha that is kept. */
template <class Out>
__device__ __forceinline__ void store_apart(const arguments &a, const outlet &to, uint8_t *row, const float (&y)[4]) {
  int q = to.first / a.problem.channels, c = to.first - q * a.problem.channels;
  UNROLLED_FOR (int i = 0; i < 4; i++) {
    if (to.first + i < to.samples && !(a.problem.keep_alpha && c == a.problem.channels - 1))
      gconv_store(y[i], (Out *)(row + q * a.out_pixel + c * a.out_channel));
    c++;
    if (c == a.problem.channels)
      q++, c = 0;
  }
}

/* Stores finished values of row p in the output of filter k, then alpha that is kept. Stacked responses have one alpha. */
template <class In, class Out>
__device__ __forceinline__ void store(const banded_arguments &a, const outlet &to, int k, int p, const float (&y)[4]) {
  uint8_t *row = to.out + k * a.common.out_filter + p * a.common.out_row;
  if (a.dense)
    store_four(y, (Out *)row, to.first, to.samples - to.first);
  else
    store_apart<Out>(a.common, to, row, y);
  const int channels = a.common.problem.channels;
  if (!a.common.problem.keep_alpha || (k > 0 && a.common.problem.epilogue.combine == GCONV_COMBINE_STACK))
    return;
#pragma unroll 1
  for (int sample = to.first; sample < min(to.first + 4, to.samples); sample++)
    if (sample % channels == channels - 1)
      gconv_store(alpha_at<In>(a.common, to.in, sample, p),
                  (Out *)(row + sample / channels * a.common.out_pixel + a.common.out_alpha));
}

/* Stores the bytes of a word that lie in the row; `count` of them are left. */
__device__ __forceinline__ void store_bytes(uint32_t word, uint8_t *at, int count) {
  if (count >= 4)
    __stcs((uint32_t *)at, word);
  else
    UNROLLED_FOR (int i = 0; i < 3; i++)
      if (i < count)
        at[i] = (uint8_t)(word >> 8 * i);
}

/* Returns the same value, but the compiler keeps it in a register instead of computing it again. */
__device__ __forceinline__ uint32_t keep(uint32_t value) {
  return __shfl_sync(~0u, value, threadIdx.x % LANES);
}

/* The part of a lane in storing a row of a tile, if the epilogue is only scale and offset. */
struct plain_outlet {
  int first, count; /* first of four output samples; how many of them lie in the row (less than 1: none) */
  bool whole;       /* all samples of the tile lie in the row */
  uint32_t chosen;  /* selects bytes from two lanes' words */
  float scale, offset;

  __device__ __forceinline__ plain_outlet(const banded_arguments &a, const outlet &to) {
    const int lane = threadIdx.x % LANES;
    const bool odd = lane % 2 == 1;
    first = to.first - 4 * lane + BLOCK * (lane / 4) + (lane % 4 & 2) * 2 + (odd ? HALF : 0);
    count = to.samples - first;
    whole = to.first - 4 * lane + TILE <= to.samples;
    chosen = keep(odd ? 0x3276 : 0x5410);
    scale = a.scalings[0].multiplier * a.scale;
    offset = a.offset;
  }

  /* Returns the levels of the lane's four sums. A value times 2^-149 is rounded to the nearest integer, and its bits are
   * that integer. With three digits, the lowest is cut off below a quantum of 256: see error_bound(). */
  template <int D> __device__ __forceinline__ uint32_t levels(const int (&sums)[D][4]) const {
    int32_t level[4];
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      const int sum = D == 1 ? sums[0][i] : sums[D - 1][i] * 256 + (sums[D > 1][i] + (sums[0][i] >> 8));
      level[i] = __float_as_int(fmaf((float)sum, D == 1 ? scale : 256 * scale, offset) * 0x1p-149f);
    }
    return saturate_four(level);
  }

  /* Turns bytes 0, 1 of windows g and g + 8 into four neighbours: of window g for the even lane of two, of g + 8 for the odd
   * one. */
  __device__ __forceinline__ uint32_t exchange(uint32_t bytes) const {
    return __byte_perm(bytes, __shfl_xor_sync(~0u, bytes, 1), chosen);
  }
};

/* Combines the responses of filter k with those before, which are in `values`. Returns true if all filters are combined;
 * then y is the result. */
__device__ __forceinline__ bool combine(const gconv_problem &problem, int k, float (&y)[4], float *values) {
  const gconv_combine how = problem.epilogue.combine;
  const bool last = k == problem.filters - 1;
  float4 value = make_float4(0, 0, 0, 0);
  if (k == 0)
    value = make_float4(gconv_combine_first(how, y[0]), gconv_combine_first(how, y[1]), gconv_combine_first(how, y[2]),
                        gconv_combine_first(how, y[3]));
  else {
    value = *(float4 *)values;
    value = make_float4(gconv_combine_next(how, value.x, y[0]), gconv_combine_next(how, value.y, y[1]),
                        gconv_combine_next(how, value.z, y[2]), gconv_combine_next(how, value.w, y[3]));
  }
  if (!last)
    *(float4 *)values = value;
  y[0] = gconv_combine_last(how, value.x);
  y[1] = gconv_combine_last(how, value.y);
  y[2] = gconv_combine_last(how, value.z);
  y[3] = gconv_combine_last(how, value.w);
  return last;
}

/* Finishes and stores this lane's four sums of filter k at row p. */
template <class In>
__device__ __forceinline__ void finish(const banded_arguments &a, const outlet &to, int k, int p, const scaling &s,
                                       const float *sums, float *values) {
  const gconv_problem &problem = a.common.problem;
  const float4 sum = *(const float4 *)sums;
  float y[4] = {sum.x * s.multiplier, sum.y * s.multiplier, sum.z * s.multiplier, sum.w * s.multiplier};
  if (s.divisor != 1.0f || s.bias != 0.0f)
    UNROLLED_FOR (int i = 0; i < 4; i++)
      y[i] = gconv_response(y[i], s.divisor, s.bias);
  if (a.combined) {
    if (!combine(problem, k, y, values))
      return;
    k = 0;
  }
  UNROLLED_FOR (int i = 0; i < 4; i++)
    y[i] = gconv_finish(y[i], &problem.epilogue);
  if (problem.out_type == GCONV_U8)
    store<In, uint8_t>(a, to, k, p, y);
  else if (problem.out_type == GCONV_U16)
    store<In, uint16_t>(a, to, k, p, y);
  else
    store<In, float>(a, to, k, p, y);
}

/* The planes that a block reads and writes. */
struct planes {
  const uint8_t *in;
  uint8_t *out;
};

__device__ __forceinline__ planes planes_of(const arguments &a, int z) {
  const int image = z / a.problem.planes, plane = z - image * a.problem.planes;
  return {a.in + image * a.in_image + plane * a.in_plane, a.out + image * a.out_image + plane * a.out_plane};
}

} // namespace
