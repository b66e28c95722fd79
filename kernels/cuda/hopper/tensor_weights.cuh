/* SPDX-License-Identifier: MIT */
/* Prepares the weights of a layer for tensor cores (tensor.cuh): their order, scales and digits. */
#pragma once

#include "tensor_flow.cuh"

#include <vector>

namespace tensor {

inline int64_t weight_bytes(const cut &c) {
  return (int64_t)c.groups * c.filter_tiles * c.chunks * c.steps * c.digits * TILE_UNITS * ROWS * UNIT;
}
/* Returns which weight a row of the product (a filter; in BAND, one of its U rows) has for number e of a unit, or -1. */
inline int64_t weight_at(const cut &c, const gconv_layer_problem *p, int32_t group, int32_t row, int32_t chunk, const tap &t,
                         int32_t e) {
  const int32_t wide = c.how == BAND ? c.unit : 1, filter = row / wide;
  const int32_t unit = chunk / c.row_chunks * c.chunk_units + t.unit;
  const int32_t channel = c.how == WIDE ? unit * c.unit + e : unit, r = chunk % c.row_chunks * c.chunk_rows + t.row;
  const int32_t s = c.how == WIDE ? t.part : c.how == NARROW ? t.part * c.unit + e : t.part * c.unit + e - row % wide;
  if (filter >= c.filters || channel >= c.channels || r >= p->rows || s < 0 || s >= p->columns)
    return -1;
  const int64_t k = (int64_t)group * c.filters + filter;
  return ((k * c.channels + channel) * p->rows + r) * p->columns + s;
}

/* Returns the taps of a chunk, two for each step. */
inline std::vector<tap> taps_of(const cut &c, const gconv_layer_problem *p) {
  std::vector<tap> taps(c.steps * TILE_UNITS, tap{0, p->rows});
  if (c.flow.steps) {
    list_flow_taps(c, p, taps.data());
    return taps;
  }
  list_taps(c, taps.data());
  if (c.taps % TILE_UNITS) { /* an odd last tap gets a partner: the tap before it, or itself, in a row after the filter,
                                where weights are 0 */
    taps[c.taps] = taps[c.taps - 1];
    taps[c.taps - 1] = taps[std::max(c.taps - 2, 0)];
    taps[c.taps - 1].row = p->rows;
  }
  return taps;
}

/* The place of a number among the weights of a step: its row in the filter tile, its unit, and its number in the unit. */
struct weight_place {
  int32_t row, unit, number;
};

/* Returns the place of the i-th number, for weights that stay in registers: 8 for each thread (instructions.cuh). */
inline weight_place held_weight(int32_t i) {
  const int32_t thread = i / 8, pair = i % 8 / 2;
  return {thread / 32 * 16 + thread % 32 / 4 + pair % 2 * 8, pair / 2, thread % 4 * 2 + i % 2};
}

/* Writes 1 / scale of `count` filters. Filters after the layer's last one fill up a tile, and have the scale 1. */
inline void scale_filters(const gconv_layer_problem *p, const float *weights, bool scaled, int32_t count, float *scales) {
  const int64_t taps = gconv_layer_taps(p);
  for (int32_t k = 0; k < count; k++) {
    uint32_t most = 0;
    for (int64_t i = 0; i < taps && k < p->filters; i++) {
      uint32_t bits;
      memcpy(&bits, &weights[k * taps + i], sizeof bits);
      most = std::max(most, bits & 0x7fffffff);
    }
    scales[k] = ldexpf(1, scaled && k < p->filters ? -gconv_scale_exponent(most) : 0);
  }
}

/* Tensor cores truncate sums, so each instruction makes the earlier sum smaller by some CUT_OFF of it. */
constexpr float CUT_OFF = 0x1p-25f;

/* Returns the factor of the weights of a step (counted through all filter tiles). It makes up for what the instructions from
 * this step on cut off from the step's products. With one digit, this is too little to matter. */
GCONV_BOTH float gain_of(const cut &c, int64_t step) {
  const int32_t all = c.chunks * c.steps, of_split = c.split_chunks * c.steps, at = (int32_t)(step % all);
  const int32_t unused = c.steps - (c.taps + TILE_UNITS - 1) / TILE_UNITS; /* at the end, in layers of few taps */
  const int32_t end = at / of_split * of_split + of_split, left = (end < all ? end : all) - unused - at;
  return c.digits == 2 && left > 0 ? 1 + (float)(3 * left - 2) * CUT_OFF : 1.0f;
}

/* Returns weight `source`, scaled like its filter of `taps` taps, or 0 if `source` is -1. */
GCONV_BOTH float scaled_weight(const float *weights, int64_t taps, int32_t source, const float *scales) {
  return source < 0 ? 0.0f : weights[source] / scales[source / taps]; /* scales are powers of two, so this is exact */
}

/* Writes the digits of the i-th number, w. Numbers lie in groups of `together`: a group has the highest digits of all its
 * numbers, then their next digits. */
template <class E, int D> GCONV_BOTH void write_digits(float w, int64_t i, int32_t together, typename E::number *to) {
  to += i / together * D * together + i % together;
  for (int digit = 0; digit < D; digit++)
    to[digit * together] = E::round(w, &w);
}

/* ---- Weights that change ---- */

/* Writes 1 / scale of each filter. A block processes one filter. */
static __global__ void find_filter_scales(const float *weights, int64_t taps, float *scales) {
  __shared__ uint32_t largest;
  uint32_t most = 0;
  for (int64_t i = threadIdx.x; i < taps; i += blockDim.x)
    most = max(most, __float_as_uint(weights[blockIdx.x * taps + i]) & 0x7fffffff);
  if (threadIdx.x == 0)
    largest = 0;
  __syncthreads();
  atomicMax(&largest, most); /* bits are ordered like magnitudes */
  __syncthreads();
  if (threadIdx.x == 0)
    scales[blockIdx.x] = power_of_two(-gconv_scale_exponent(largest));
}

/* Writes the digits of all numbers. */
template <class E, int D>
static __global__ void prepare_digits(const float *weights, int64_t taps, const int32_t *sources, int64_t count,
                                      int32_t together, const __grid_constant__ cut c, const float *scales,
                                      typename E::number *to) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (int64_t)blockDim.x)
    write_digits<E, D>(scaled_weight(weights, taps, sources[i], scales) * gain_of(c, i / together), i, together, to);
}

} // namespace tensor
