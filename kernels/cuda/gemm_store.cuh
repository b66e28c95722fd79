/* SPDX-License-Identifier: MIT */
/* gemm: storing the sums of a tile. Threads store them directly if they can. Otherwise the sums go through shared memory, to
 * be combined, or to be reordered as the output needs them. */
#pragma once

#include "gemm_sum.cuh"

namespace {

/* Returns the address of row `i` of a tile in the output of filter k, or NULL past the last row. */
__device__ __forceinline__ uint8_t *out_row(const cut &a, const origin &at, int32_t i, int32_t k) {
  const int64_t p = at.row + (int64_t)i * a.out_step;
  return p < a.common.problem.out_height ? at.out + p * a.common.out_row + k * a.common.out_filter : NULL;
}

/* Finishes a sum. For combined values, divisor is 1 and bias 0. */
__device__ __forceinline__ float value_of(const cut &a, float sum, float divisor, float bias) {
  const gconv_epilogue &epilogue = a.common.problem.epilogue;
  return a.plain ? fmaf(sum, epilogue.scale, epilogue.offset) : gconv_finish(gconv_response(sum, divisor, bias), &epilogue);
}

/* Stores four values from sample `sample` of a row on; values past the end of the row are left out. */
__device__ __forceinline__ void put_four(const cut &a, const float (&y)[4], uint8_t *row, int64_t sample) {
  const gconv_problem &problem = a.common.problem;
  const int64_t left = (int64_t)problem.out_width * problem.channels - sample;
  const int count = left < 4 ? (int)left : 4;
  if (problem.out_type == GCONV_U8)
    store_four(y, (uint8_t *)row + sample, 0, count);
  else if (problem.out_type == GCONV_U16)
    store_four(y, (uint16_t *)row + sample, 0, count);
  else
    store_four(y, (float *)row + sample, 0, count);
}

/* Stores one value at sample `i` of a tile's row, if the output has that sample. */
__device__ __forceinline__ void put_one(const cut &a, const origin &at, float y, uint8_t *row, int32_t i) {
  const gconv_problem &problem = a.common.problem;
  const int32_t v = i / a.phases, phase = at.phase + i % a.phases;
  const int64_t sample = (at.column + v) * a.out_phases + phase, q = sample / problem.channels;
  const int32_t c = (int32_t)(sample - q * problem.channels);
  uint8_t *to = row + q * a.common.out_pixel + c * a.common.out_channel;
  if (phase >= a.out_phases || q >= problem.out_width || (problem.keep_alpha && c == problem.channels - 1))
    return;
  store_as(problem.out_type, y, to);
}

/* Stores a thread's outputs directly. This needs a plain epilogue and a single phase; then they lie one behind the other. */
template <class Out, int F, int V>
__device__ __forceinline__ void store_directly(const cut &a, const origin &at, const thread_place &my, int32_t filter_tile,
                                               const float (&sums)[F][V]) {
  const float scale = a.common.problem.epilogue.scale, offset = a.common.problem.epilogue.offset;
  const int64_t sample = at.column + my.group * V, left = a.common.problem.out_width - sample;
  int32_t k = filter_tile * F * a.filter_warps + my.filter_warp;
  uint8_t *row = out_row(a, at, my.row, k);
  if (!my.used || !row)
    return;
  Out *to = (Out *)row + sample;
  UNROLLED_FOR (int f = 0; f < F && k < a.common.problem.filters; f++, k += a.filter_warps) {
    float y[V];
    UNROLLED_FOR (int v = 0; v < V; v++)
      y[v] = fmaf(sums[f][v], scale, offset);
    if (left >= V) {
      UNROLLED_FOR (int v = 0; v < V; v += 4)
        store_four({y[v], y[v + 1], y[v + 2], y[v + 3]}, to, v, 4);
    } else {
      UNROLLED_FOR (int v = 0; v < V; v++)
        if (v < left)
          gconv_store(y[v], to + v);
    }
    to = (Out *)((uint8_t *)to + a.filter_warps * a.common.out_filter);
  }
}

/* Otherwise sums go through shared memory, in the order of the output: rows of groups, each V times all phases. After each
 * group, SKEW floats stay unused, so that groups use all banks. */
__device__ __forceinline__ int32_t skewed(const cut &a, int32_t i) {
  return i + (int32_t)__umulhi(i, a.group_inverse) * SKEW;
}

template <int V, bool SLIDING>
__device__ __forceinline__ void exchange(const cut &a, const thread_place &my, const float (&sums)[V], float *to) {
  const int32_t row = my.row * a.groups * V * a.phases;
  to += my.filter_warp * a.exchange_pitch;
  if (!my.used)
    return;
  if (SLIDING) {
    to += skewed(a, row + my.group * V * a.phases) + my.phase;
    UNROLLED_FOR (int v = 0; v < V; v++, to += a.phases)
      *to = sums[v];
  } else {
    UNROLLED_FOR (int v = 0; v < V; v++)
      to[skewed(a, row + (my.group + v * a.groups) * a.phases + my.phase)] = sums[v];
  }
}

/* One warp stores a row of `length` sums, which begin at number `first` of those exchanged. */
__device__ __forceinline__ void store_row(const cut &a, const origin &at, int32_t first, int32_t length, const float *sums,
                                          float divisor, float bias, uint8_t *row) {
  const int32_t lane = threadIdx.x % 32;
  if (!row)
    return;
  if (!a.fours) {
    for (int32_t i = lane; i < length; i += 32)
      put_one(a, at, value_of(a, sums[skewed(a, first + i)], divisor, bias), row, i);
    return;
  }
  const int64_t sample = at.column * a.out_phases, samples = (int64_t)a.common.problem.out_width * a.out_phases;
  for (int32_t i = 4 * lane; i < length && sample + i < samples; i += 4 * 32) {
    const float4 four = *(const float4 *)(sums + skewed(a, first + i));
    const float y[4] = {value_of(a, four.x, divisor, bias), value_of(a, four.y, divisor, bias),
                        value_of(a, four.z, divisor, bias), value_of(a, four.w, divisor, bias)};
    put_four(a, y, row, sample + i);
  }
}

/* Stores the responses of one filter of each warp, from filter `first` on. A warp stores one row at a time. */
template <int V> __device__ void store_filters(const cut &a, const origin &at, int32_t first, const float *sums) {
  const gconv_problem &problem = a.common.problem;
  const int32_t length = V * a.groups * a.phases;
  for (int32_t i = threadIdx.x / 32; i < a.filter_warps * a.rows; i += blockDim.x / 32) {
    const int32_t f = i / a.rows, row = i - f * a.rows, k = first + f;
    if (k >= problem.filters)
      continue;
    const float divisor = a.plain ? 1.0f : gconv_divisors(&problem, a.weights)[k];
    const float bias = a.plain ? 0.0f : gconv_biases(&problem, a.weights)[k];
    store_row(a, at, row * length, length, sums + f * a.exchange_pitch, divisor, bias, out_row(a, at, row, k));
  }
}

/* Combines the sums into `values` instead. `values` has the layout of the sums; each thread has its own. */
template <int V> __device__ void combine_filters(const cut &a, int32_t first, const float *sums, float *values) {
  const gconv_problem &problem = a.common.problem;
  const gconv_combine combine = problem.epilogue.combine;
  const float *divisors = gconv_divisors(&problem, a.weights), *biases = gconv_biases(&problem, a.weights);
  const int32_t filters = min(a.filter_warps, problem.filters - first);
  for (int32_t i = threadIdx.x; i < a.exchange_pitch; i += blockDim.x) {
    float value = values[i];
    for (int32_t f = 0; f < filters; f++) {
      const float response = gconv_response(sums[f * a.exchange_pitch + i], divisors[first + f], biases[first + f]);
      value = first + f == 0 ? gconv_combine_first(combine, response) : gconv_combine_next(combine, value, response);
    }
    values[i] = first + filters < problem.filters ? value : gconv_combine_last(combine, value);
  }
}

template <int V> __device__ void store_combined(const cut &a, const origin &at, const float *values) {
  const int32_t length = V * a.groups * a.phases;
  for (int32_t row = threadIdx.x / 32; row < a.rows; row += blockDim.x / 32)
    store_row(a, at, row * length, length, values, 1.0f, 0.0f, out_row(a, at, row, 0));
}

/* Finishes a block's sums of one tile of filters. The filters of a tile are dealt to the warps F times, so that the filters
 * of one round follow each other. */
template <int F, int V, bool SLIDING>
__device__ __forceinline__ void finish_tile(const cut &a, const origin &at, const thread_place &my, int32_t filter_tile,
                                            const float (&sums)[F][V], float *shared, float *values) {
  const bool combined = gconv_is_combined(&a.common.problem);
  if (SLIDING && !combined && a.fours && a.plain && a.phases == 1) {
    if (a.common.problem.out_type == GCONV_U8)
      store_directly<uint8_t>(a, at, my, filter_tile, sums);
    else if (a.common.problem.out_type == GCONV_U16)
      store_directly<uint16_t>(a, at, my, filter_tile, sums);
    else
      store_directly<float>(a, at, my, filter_tile, sums);
    return;
  }
#pragma unroll 1
  for (int f = 0; f < F; f++) {
    const int32_t first = (filter_tile * F + f) * a.filter_warps;
    if (first >= a.common.problem.filters)
      return;
    __syncthreads();
    UNROLLED_FOR (int k = 0; k < F; k++) /* unrolled, because registers have no run-time index */
      if (k == f)
        exchange<V, SLIDING>(a, my, sums[k], shared);
    __syncthreads();
    if (combined)
      combine_filters<V>(a, first, shared, values);
    else
      store_filters<V>(a, at, first, shared);
  }
}

} // namespace
