/* SPDX-License-Identifier: MIT */
/* Finishes and stores the sums of a layer on tensor cores (tensor.cuh): scale, bias, activation. */
#pragma once

#include "kernels/activation.h"
#include "tensor_work.cuh"

#include <type_traits>

namespace tensor {

/* ---- Infinite samples and NaN ---- */

/* An infinity has no second digit, and its product with a weight of 0 that only fills up a unit is NaN. So outputs that use
 * units with an infinity would differ from outputs in float32. A flag marks such inputs. Then outputs that are not finite
 * are computed again, one by one, in float32. */

DEVICE bool is_finite(float v) {
  return (__float_as_uint(v) & 0x7f800000) != 0x7f800000;
}

/* Returns the sum of output (row, column) of filter k in float32, as layer_problem.h defines it. */
static __device__ __noinline__ float plain_sum(const gconv_layer_problem &p, const float *images, const float *weights,
                                               int32_t image, int32_t k, int32_t row, int32_t column) {
  const int32_t channels = p.channels / p.groups, first = k / (p.filters / p.groups) * channels;
  const float *weight = weights + k * gconv_layer_taps(&p);
  float sum = 0;
  for (int32_t c = 0; c < channels; c++)
    for (int32_t r = 0; r < p.rows; r++)
      for (int32_t s = 0; s < p.columns; s++, weight++) {
        const int32_t y = row * p.stride_y - p.pad_top + r * p.dilation_y,
                      x = column * p.stride_x - p.pad_left + s * p.dilation_x;
        const bool inside = (uint32_t)y < (uint32_t)p.height && (uint32_t)x < (uint32_t)p.width;
        const float *in = images + ((int64_t)image * p.channels + first + c) * p.height * p.width;
        sum = fmaf(*weight, inside ? in[(int64_t)y * p.width + x] : 0.0f, sum);
      }
  return sum;
}

/* Returns an output after the slope of its filter, if filters have their own. */
DEVICE float bend(const arguments &a, int32_t filter, float y) {
  return a.slopes && y < 0 ? y * __ldg(a.slopes + filter) : y;
}

/* Checks the outputs that a warp has stored: 16 rows of the product, for a tile. Mends those that are not finite. */
static __device__ __noinline__ void mend(const arguments *a, int32_t group, uint32_t first, uint32_t end,
                                         int32_t first_row) {
  const gconv_layer_problem &p = a->problem;
  const int32_t wide = a->c.how == BAND ? a->c.unit : 1;
  for (int32_t i = threadIdx.x % 32; i < POSITIONS; i += 32) {
    const place at = place_of(*a, first + i);
    for (int32_t row = first_row; row < first_row + 16; row++) {
      const int32_t k = row / wide, q = at.strip * a->c.strip + at.column * wide + row % wide;
      if (first + i >= end || at.image >= p.images || at.row >= p.out_height || at.column >= a->c.columns ||
          q >= p.out_width || k >= a->c.filters)
        continue;
      const int32_t filter = group * a->c.filters + k;
      float *out = a->out + (((int64_t)at.image * p.filters + filter) * p.out_height + at.row) * p.out_width + q;
      if (!is_finite(*out))
        *out =
            bend(*a, filter,
                 gconv_activate(&p, plain_sum(p, a->in, a->plain_weights, at.image, filter, at.row, q) + a->biases[filter]));
    }
  }
}

/* ---- Joined splits ---- */

/* Of two splits of a tile, the split that is ready first leaves its sums in memory. The other split adds them to its own
 * sums while it stores. Either may be first, because a + b is b + a. Returns false for the first split. All threads of a
 * warpgroup call this. `half` becomes the place of this thread's sums. */
DEVICE bool meet_half(const arguments &a, const memory &m, int64_t tile, float4 **half, const float (&sums)[128]) {
  volatile uint32_t *before = m.barriers->before;
  const int32_t group = threadIdx.x / GROUP, barrier = 1 + group;
  uint32_t *ready = a.ready + tile;
  *half = a.halves + tile * (ROWS * POSITIONS / 4) + threadIdx.x % GROUP;
  if (threadIdx.x % GROUP == 0)
    before[group] = atomicAdd(ready, 1);
  barrier_of(barrier, GROUP);
  const bool first = before[group] == 0;
  if (first) {
    UNROLLED_FOR (int i = 0; i < 32; i++)
      __stcg(*half + i * GROUP, make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    __threadfence();
  }
  barrier_of(barrier, GROUP);
  if (first && threadIdx.x % GROUP == 0)
    atomicAdd(ready, 2);
  while (!first && *(volatile uint32_t *)ready != 4)
    ; /* this ends, because the other split is already storing its sums */
  __threadfence();
  return !first;
}

/* ---- Storing ---- */

/* A warp computes the places of outputs for the positions of a tile. */
DEVICE void find_out_places(const arguments &a, const item &it, int64_t tile, out_place *out_places) {
  const cut &c = a.c;
  const gconv_layer_problem &p = a.problem;
  const uint32_t first = position_of(a, tile), end = tile < c.tiles ? end_of(a, tile) : 0;
  const int32_t wide = c.how == BAND ? c.unit : 1;
  UNROLLED_4_FOR (int32_t i = threadIdx.x % 32; i < POSITIONS; i += 32) {
    const place at = place_of(a, first + i);
    const int32_t q = at.strip * c.strip + at.column * wide;
    out_place s = {0, 1.0f, 0};
    if (a.maxima && at.image < p.images)
      s.scale = image_scale(a, at.image, it.group, -1);
    if (first + i < end && at.image < p.images && at.row < p.out_height && at.column < c.columns && q < p.out_width) {
      s.at = ((int64_t)at.image * p.filters * p.out_height + at.row) * p.out_width + q;
      s.room = min(wide, p.out_width - q);
    }
    out_places[i] = s;
  }
}

/* How a row's sums become outputs: times `scale` (1 / scale of the filter) and 1 / scale of the image, plus `bias`; below 0,
 * times `slope`. */
struct finish {
  float scale, bias, slope;
};

DEVICE finish finish_of(const arguments &a, int32_t group, int32_t row) {
  const int32_t in_group = row / (a.c.how == BAND ? a.c.unit : 1);
  const int32_t filter = group * a.c.filters + min(in_group, a.c.filters - 1);
  return {a.filter_scales ? __ldg(a.filter_scales + filter) : 1.0f, a.partial ? 0.0f : __ldg(a.biases + filter),
          a.slopes && !a.partial ? __ldg(a.slopes + filter) : a.straight.slope};
}

/* The scales of a filter and an image: a sum is multiplied by `first`, then by `then`. */
struct scales {
  float first, then;
};
/* Returns both scales. If their product is too large for a float32, the output's bound is not finite either. If their
 * product is too small, the output may still be more than 0, because the sum may be large. So the multiplication has two
 * steps, with scales that are both below 1. */
DEVICE scales both_scales(float filter, float image) {
  const float both = filter * image;
  return both >= FLT_MIN ? scales{1, fminf(both, 0x1p127f)} : scales{image, filter};
}

/* Returns whether outputs of rows with these scales, for all lanes, are sum * then + bias. */
DEVICE bool are_plain(const scales (&s)[2], const finish (&f)[2]) {
  return __all_sync(UINT32_MAX, f[0].slope == 1 && f[1].slope == 1 && s[0].first == 1 && s[1].first == 1);
}

template <bool PLAIN> DEVICE float finished(const arguments &a, float sum, const scales &s, const finish &f) {
  if (PLAIN)
    return fmaf(sum, s.then, f.bias);
  const float y = fmaf(sum * s.first, s.then, f.bias);
  return y < 0 ? fmaxf(y, a.straight.lowest) * f.slope : y;
}

/* Returns the floats between rows of 32 positions, chosen so that threads use different banks: for W = 1 when they read and
 * write, for larger W when they read. */
template <int W> __host__ __device__ constexpr int pitch_of() {
  return W == 1 ? 40 : 36;
}

/* A warp stores 16 rows of 32 positions from `values`: neighbouring lanes store neighbouring outputs. W: outputs of a
 * position. ALL: all 16 / W filters exist. */
template <int W, bool ALL>
DEVICE void store_rows(float *out, int64_t plane, int32_t filters, const out_place *out_places, const float *values) {
  const int32_t lane = threadIdx.x % 32, shift = lane % W;
  values += shift * pitch_of<W>() + lane / W;
  UNROLLED_FOR (int i = 0; i < W; i++) {
    const out_place s = out_places[i * (32 / W) + lane / W];
    float *to = out + s.at + shift;
    float y[16 / W];
    UNROLLED_FOR (int k = 0; k < 16 / W; k++)
      y[k] = values[k * W * pitch_of<W>() + i * (32 / W)];
    if (shift < s.room)
      UNROLLED_FOR (int k = 0; k < 16 / W; k++, to += plane)
        if (ALL || k < filters)
          __stcs(to, y[k]);
  }
}

/* Finishes and stores a warp's 16 rows of sums, which have the layout of instructions.cuh, through shared memory, 32
 * positions at a time. Of the warps of a scheduler, one does this while another multiplies. So each instruction waits for
 * the previous one, and there should be few instructions. USUAL: all filters exist, and all positions have one scale.
 * JOINED: `half` is added, from meet_half(). */
template <int W, bool USUAL, bool JOINED>
DEVICE void store_parts(const arguments &a, float *out, int64_t plane, int32_t filters, const out_place *out_places,
                        const finish (&f)[2], float *exchange, const float4 *half, const float (&sums)[128]) {
  const int32_t lane = threadIdx.x % 32;
  float *to = exchange + lane / 4 * pitch_of<W>() + lane % 4 * 2;
  const scales alike[2] = {both_scales(f[0].scale, out_places[0].scale), both_scales(f[1].scale, out_places[0].scale)};
  const bool plain = USUAL && are_plain(alike, f);
  float4 others[4];
  if (JOINED)
    UNROLLED_FOR (int i = 0; i < 4; i++)
      others[i] = __ldcg(half + i * GROUP);
  UNROLLED_FOR (int part = 0; part < POSITIONS / 32; part++) {
    float y[16], own[16];
    UNROLLED_FOR (int i = 0; i < 16; i++)
      own[i] = sums[part * 16 + i];
    if (JOINED)
      UNROLLED_FOR (int i = 0; i < 4; i++) {
        own[4 * i] += others[i].x, own[4 * i + 1] += others[i].y, own[4 * i + 2] += others[i].z,
            own[4 * i + 3] += others[i].w;
        if (part + 1 < POSITIONS / 32)
          others[i] = __ldcg(half + (part * 4 + 4 + i) * GROUP);
      }
    if (plain)
      UNROLLED_FOR (int i = 0; i < 16; i++)
        y[i] = finished<true>(a, own[i], alike[i / 2 % 2], f[i / 2 % 2]);
    else
      UNROLLED_FOR (int i = 0; i < 16; i++) { /* i counts two neighbours, then two rows, then groups of 8 positions */
        const int position = part * 32 + i / 4 * 8 + lane % 4 * 2 + i % 2, row = i / 2 % 2;
        const scales s = USUAL ? alike[row] : both_scales(f[row].scale, out_places[position].scale);
        y[i] = finished<false>(a, own[i], s, f[row]);
      }
    UNROLLED_FOR (int i = 0; i < 16; i += 2)
      *(float2 *)(to + i / 4 * 8 + i / 2 % 2 * 8 * pitch_of<W>()) = make_float2(y[i], y[i + 1]);
    __syncwarp();
    store_rows<W, USUAL>(out, plane, filters, out_places + part * 32, exchange);
    __syncwarp();
  }
}

template <int W, bool JOINED>
DEVICE void store(const arguments &a, const item &it, int64_t tile, int32_t filter_tile, const out_place *out_places,
                  const finish (&f)[2], float *exchange, const float4 *half, const float (&sums)[128]) {
  const int32_t row = filter_tile * ROWS + threadIdx.x % GROUP / 32 * 16, filters = a.c.filters - row / W;
  const int64_t plane = (int64_t)a.problem.out_height * a.problem.out_width;
  float *out = a.partial ? a.partial + (JOINED ? 0 : it.split) * plane * a.problem.filters * a.problem.images : a.out;
  out += (it.group * a.c.filters + row / W) * plane;
  const uint32_t first = position_of(a, tile);
  const bool alike = a.alike || place_of(a, first).image == place_of(a, first + POSITIONS - 1).image;
  if (filters >= 16 / W && alike)
    store_parts<W, true, JOINED>(a, out, plane, filters, out_places, f, exchange, half, sums);
  else
    store_parts<W, false, JOINED>(a, out, plane, filters, out_places, f, exchange, half, sums);
}

/* Returns the output that a sum becomes. Computes the sum again if it is not finite. */
DEVICE float finished_sum(const arguments &a, int32_t image, int32_t k, int32_t at, float sum) {
  if (!is_finite(sum)) {
    const int32_t row = at / a.problem.out_width;
    sum = plain_sum(a.problem, a.in, a.plain_weights, image, k, row, at - row * a.problem.out_width);
  }
  return bend(a, k, gconv_activate(&a.problem, sum + __ldg(a.biases + k)));
}

/* Adds the splits in their order, with bias and activation, for V neighbouring outputs at a time, and computes outputs that
 * are not finite again. Without splits, this computes curved activations in place. Neighbours are of one filter: `plane`
 * (the outputs of a filter) and `count` (the outputs of all filters and images) are multiples of V. */
template <int V>
static __global__ void __launch_bounds__(256)
    finish_sums(const __grid_constant__ arguments a, int64_t plane, int64_t count) {
#ifdef HOPPER
  await_kernel_before();
#endif
  typedef typename std::conditional<V == 4, float4, float>::type together;
  for (int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * V; i < count; i += (int64_t)gridDim.x * 256 * V) {
    const int64_t of = quotient(i, plane);
    const int32_t image = (int32_t)quotient(of, a.problem.filters), k = (int32_t)(of - (int64_t)image * a.problem.filters);
    float sums[V] = {};
    UNROLLED_4_FOR (int32_t split = 0; split < a.parts; split++) {
      const together part = *(const together *)(a.partial + split * count + i);
      UNROLLED_FOR (int v = 0; v < V; v++)
        sums[v] += ((const float *)&part)[v];
    }
    together out;
    UNROLLED_FOR (int v = 0; v < V; v++)
      ((float *)&out)[v] = finished_sum(a, image, k, (int32_t)(i - of * plane) + v, sums[v]);
    *(together *)(a.out + i) = out;
  }
}

} // namespace tensor
