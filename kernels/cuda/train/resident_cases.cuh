/* SPDX-License-Identifier: MIT */
/*
 * The last layer of steps of one slice. The blocks of a cluster share its cases: each computes all outputs of some cases,
 * and sends the gradients of their sums to all other blocks. A warp has two cases, and a lane one output of both, so that
 * softmax stays within the warp.
 *
 * Weights are w[c][k], with the row of biases last. Outputs and gradients are y[n][k] and dz[n][k]. After the gradients of a
 * case comes a 1 if one of its numbers is not finite, else a 0. Rows are padded with zeros to multiples of four.
 */
#pragma once

#include "resident_pass.cuh"

namespace {

/* Returns the maximum over the lanes. If a number is NaN, the result may be any lane's number. */
__device__ __forceinline__ float largest_of_warp(float v) {
#if __CUDA_ARCH__ >= 800
  int32_t bits = __float_as_int(v); /* the exclusive or makes integers that sort as the numbers do */
  bits = __reduce_max_sync(0xffffffff, bits ^ (bits >> 31 & 0x7fffffff));
  return __int_as_float(bits ^ (bits >> 31 & 0x7fffffff));
#else
  UNROLLED_FOR (int half = 16; half > 0; half /= 2)
    v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, half));
  return v;
#endif
}

/* sums[m] = the sum of output k of case n + m. PITCH_W: l.w_pitch if it is known, else 0. */
template <int ROOM, int PITCH_W>
__device__ __forceinline__ void sum_outputs(const resident_layer &l, int32_t x_at, int32_t n, int32_t k, float (&sums)[2]) {
  const int32_t pitch = PITCH_W > 0 ? PITCH_W : l.w_pitch;
  const float *x = shared + x_at + n, *w = shared + l.w + k;
  UNROLLED_8_FOR(int32_t c = 0; c < l.inputs; c++) {
    const float2 two = *(const float2 *)(x + c * PITCH<ROOM>);
    const float weight = w[c * pitch];
    sums[0] = fmaf(weight, two.x, sums[0]);
    sums[1] = fmaf(weight, two.y, sums[1]);
  }
  const float bias = w[l.inputs * pitch];
  sums[0] = sums[0] + bias;
  sums[1] = sums[1] + bias;
}

/* sums[m] += all outputs of a case, in their order. The padding is 0. */
__device__ __forceinline__ void add_outputs(const resident_layer &l, float *const (&y)[2], float (&sums)[2]) {
  UNROLLED_4_FOR (int32_t k = 0; k < l.outputs; k += 4)
    UNROLLED_FOR (int m = 0; m < 2; m++) {
      const float4 four = *(const float4 *)(y[m] + k);
      sums[m] = sums[m] + four.x;
      sums[m] = sums[m] + four.y;
      sums[m] = sums[m] + four.z;
      sums[m] = sums[m] + four.w;
    }
}

/* Does softmax for cases n and n + 1, in place. */
__device__ __forceinline__ void soften(const resident_layer &l, float *const (&y)[2]) {
  float largest[2] = {-INFINITY, -INFINITY}, sums[2] = {};
  for (int32_t k = lane_of(); k < l.outputs; k += 32)
    UNROLLED_FOR (int m = 0; m < 2; m++)
      largest[m] = fmaxf(largest[m], y[m][k]);
  UNROLLED_FOR (int m = 0; m < 2; m++)
    largest[m] = largest_of_warp(largest[m]);
  for (int32_t k = lane_of(); k < l.outputs; k += 32)
    UNROLLED_FOR (int m = 0; m < 2; m++)
      y[m][k] = gconv_exp_negative(y[m][k] - largest[m]);
  __syncwarp();
  add_outputs(l, y, sums);
  __syncwarp();
  for (int32_t k = lane_of(); k < l.outputs; k += 32)
    UNROLLED_FOR (int m = 0; m < 2; m++)
      y[m][k] = y[m][k] / sums[m];
}

/* Returns the gradient of a sum of the last layer, from its output y and d = y - target. */
__device__ __forceinline__ float sum_gradient(const resident_net &net, const resident_layer &l, float factor, float y,
                                              float d) {
  const float dy = output_gradient(net, factor, d);
  return net.loss == GCONV_LOSS_CROSS_ENTROPY ? dy : gconv_learn_slope(l.activation, l.slope, y, dy);
}

/* By a warp: computes the outputs of cases n and n + 1, and sends their gradients to all blocks. cases: of the step. */
template <int ROOM, int BLOCKS>
__device__ void finish_many_outputs(const resident_net &net, int32_t block_at, int32_t n, int32_t cases, float factor) {
  const resident_layer l = net.layers[net.count - 1];
  const int32_t x_at = net.count == 1 ? block_at : l.x;
  const bool softens = net.loss == GCONV_LOSS_CROSS_ENTROPY;
  float *const y[2] = {shared + net.y + n * l.dz_pitch, shared + net.y + (n + 1) * l.dz_pitch};
  float *const dz[2] = {shared + l.dz + n * l.dz_pitch, shared + l.dz + (n + 1) * l.dz_pitch};
  for (int32_t k = lane_of(); k < l.outputs; k += 32) {
    float sums[2] = {};
    sum_outputs<ROOM, 0>(l, x_at, n, k, sums);
    UNROLLED_FOR (int m = 0; m < 2; m++)
      y[m][k] = softens ? sums[m] : gconv_activated(l.activation, l.slope, sums[m]);
  }
  if (softens)
    soften(l, y);
  bool bad[2] = {};
  for (int32_t k = lane_of(); k < l.outputs; k += 32)
    UNROLLED_FOR (int m = 0; m < 2; m++) {
      const float own = y[m][k], d = own - target_of<ROOM>(net, block_at, k, n + m);
      const bool there = n + m < cases;
      bad[m] = bad[m] || (there && (!isfinite(own) || !isfinite(d)));
      dz[m][k] = there ? sum_gradient(net, l, factor, own, d) : 0.0f;
    }
  UNROLLED_FOR (int m = 0; m < 2; m++) {
    bad[m] = __any_sync(0xffffffff, bad[m]);
    if (lane_of() == l.outputs % 32)
      dz[m][l.outputs] = bad[m] ? 1.0f : 0.0f;
  }
  if (BLOCKS > 1)
    for (int32_t k = lane_of(); k <= l.outputs; k += 32)
      UNROLLED_FOR (int m = 0; m < 2; m++)
        send_all<BLOCKS>(arrival_of(net, ARRIVED_GRADIENTS), &dz[m][k], dz[m][k]);
}

/* Replaces a by a / b, for softmax of two cases. */
__device__ __forceinline__ void divide(float (&a)[2], const float (&b)[2]) {
  if (a[0] >= 0x1p-60f && a[1] >= 0x1p-60f) {
    a[0] = gconv_quotient(a[0], b[0]);
    a[1] = gconv_quotient(a[1], b[1]);
  } else {
    a[0] = a[0] / b[0];
    a[1] = a[1] / b[1];
  }
}

/* finish_many_outputs() for fewer outputs than lanes: numbers stay in registers, except those that softmax sums. The lane
 * after the last output stores whether the case is bad. */
template <int ROOM, int BLOCKS>
__device__ void finish_few_outputs(const resident_net &net, int32_t block_at, int32_t n, int32_t cases, float factor) {
  const resident_layer l = net.layers[net.count - 1];
  const int32_t k = lane_of(), own = min(k, l.outputs - 1);
  const bool has = k < l.outputs; /* the other lanes compute the last output, too, but do not store it */
  float *const y[2] = {shared + net.y + n * l.dz_pitch, shared + net.y + (n + 1) * l.dz_pitch};
  float *const dz[2] = {shared + l.dz + n * l.dz_pitch, shared + l.dz + (n + 1) * l.dz_pitch};
  float values[2] = {}, targets[2];
  UNROLLED_FOR (int m = 0; m < 2; m++)
    targets[m] = target_of<ROOM>(net, block_at, own, n + m);
  if (l.w_pitch == 32)
    sum_outputs<ROOM, 32>(l, net.count == 1 ? block_at : l.x, n, own, values);
  else
    sum_outputs<ROOM, 0>(l, net.count == 1 ? block_at : l.x, n, own, values);
  if (net.loss == GCONV_LOSS_CROSS_ENTROPY) {
    float sums[2] = {};
    UNROLLED_FOR (int m = 0; m < 2; m++)
      values[m] = gconv_exp_negative(values[m] - largest_of_warp(values[m]));
    UNROLLED_FOR (int m = 0; m < 2; m++)
      if (has)
        y[m][k] = values[m];
    __syncwarp();
    add_outputs(l, y, sums);
    __syncwarp();
    divide(values, sums);
  } else {
    activate(l, values);
  }
  UNROLLED_FOR (int m = 0; m < 2; m++) {
    const float d = values[m] - targets[m];
    const bool there = n + m < cases;
    const bool bad = __any_sync(0xffffffff, there && (!isfinite(values[m]) || !isfinite(d)));
    const float gradient = !has ? (bad ? 1.0f : 0.0f) : there ? sum_gradient(net, l, factor, values[m], d) : 0.0f;
    if (k <= l.outputs) {
      dz[m][k] = gradient;
      if (BLOCKS > 1)
        send_all<BLOCKS>(arrival_of(net, ARRIVED_GRADIENTS), &dz[m][k], gradient);
    }
    if (has)
      y[m][k] = values[m];
  }
}

template <int ROOM, int BLOCKS>
__device__ void finish_cases(const resident_net &net, int32_t block_at, int32_t n, int32_t cases, float factor) {
  if (net.outputs < 32)
    finish_few_outputs<ROOM, BLOCKS>(net, block_at, n, cases, factor);
  else
    finish_many_outputs<ROOM, BLOCKS>(net, block_at, n, cases, factor);
}

/* True if a case has a number that is not finite. */
template <int ROOM> __device__ bool is_bad(const resident_net &net) {
  const resident_layer &l = net.layers[net.count - 1];
  bool bad = false;
  UNROLLED_FOR (int n = 0; n < ROOM; n += 32)
    bad = bad || shared[l.dz + (n + lane_of()) * l.dz_pitch + l.outputs] != 0;
  return __any_sync(0xffffffff, bad);
}

/* Computes the gradient of the sums of the layer before the last. A warp computes C inputs, and a lane has one case. last:
 * as in backward(). */
template <int C, int ROOM, int BLOCKS> __device__ void go_back_by_cases(const resident_net &net, bool last) {
  constexpr int GROUPS = ROOM / 32;
  const resident_layer l = net.layers[net.count - 1], before = net.layers[net.count - 2];
  const int32_t tasks = own_rows<BLOCKS>(l.inputs) / C * GROUPS;
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t c = own_row<BLOCKS>(task / GROUPS * C), n = task % GROUPS * 32 + lane_of();
    const float *dz = shared + l.dz + n * l.dz_pitch, *w = shared + l.w + c * l.w_pitch;
    float sums[C] = {};
    UNROLLED_4_FOR (int32_t k = 0; k < l.outputs; k += 4) {
      const float4 dzs = *(const float4 *)(dz + k);
      UNROLLED_FOR (int i = 0; i < C; i++) {
        const float4 ws = *(const float4 *)(w + i * l.w_pitch + k);
        sums[i] = fmaf(ws.x, dzs.x, sums[i]);
        sums[i] = fmaf(ws.y, dzs.y, sums[i]);
        sums[i] = fmaf(ws.z, dzs.z, sums[i]);
        sums[i] = fmaf(ws.w, dzs.w, sums[i]);
      }
    }
    const float *y = shared + l.x + c * PITCH<ROOM> + n;
    float *to = shared + before.dz + c * PITCH<ROOM> + n;
    float outputs[C];
    UNROLLED_FOR (int i = 0; i < C; i++) {
      outputs[i] = y[min(i, l.inputs - 1 - c) * PITCH<ROOM>];
      sums[i] = sums[i] + 0.0f;
    }
    apply_slopes(before, outputs, sums);
    UNROLLED_FOR (int i = 0; i < C; i++)
      if (c + i < l.inputs)
        store<BLOCKS>(last, &to[i * PITCH<ROOM>], sums[i]);
  }
}

/* Calls use(layer, output, input, gradient) for the parameters in the block's own rows. A task has R rows, and each lane has
 * one output. Returns the number of tasks; a warp does one at a time. */
template <int R, int ROOM, int BLOCKS, class Use>
__device__ int32_t find_gradients_by_cases(const resident_net &net, int32_t block_at, int32_t count, Use use) {
  const resident_layer l = net.layers[net.count - 1];
  const int32_t x_at = net.count == 1 ? block_at : l.x, pitch = l.dz_pitch;
  const int32_t wide = (l.outputs + 31) / 32, tasks = own_rows<BLOCKS>(weight_rows(l)) / R * wide;
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t c = own_row<BLOCKS>(task / wide * R), k = task % wide * 32 + lane_of();
    const float *x[R], *dz = shared + l.dz + min(k, l.outputs - 1);
    float sums[R] = {};
    UNROLLED_FOR (int i = 0; i < R; i++)
      x[i] = shared + (c + i < l.inputs ? x_at + (c + i) * PITCH<ROOM> : net.ones);
    int32_t n = 0;
    UNROLLED_2_FOR (; n + 4 <= count; n += 4, dz += 4 * pitch) {
      const float dzs[4] = {dz[0], dz[pitch], dz[2 * pitch], dz[3 * pitch]};
      UNROLLED_FOR (int i = 0; i < R; i++) {
        const float4 xs = *(const float4 *)(x[i] + n);
        sums[i] = fmaf(xs.x, dzs[0], sums[i]);
        sums[i] = fmaf(xs.y, dzs[1], sums[i]);
        sums[i] = fmaf(xs.z, dzs[2], sums[i]);
        sums[i] = fmaf(xs.w, dzs[3], sums[i]);
      }
    }
    ROLLED_FOR (; n < count; n++, dz += pitch)
      UNROLLED_FOR (int i = 0; i < R; i++)
        sums[i] = fmaf(x[i][n], *dz, sums[i]);
    UNROLLED_FOR (int i = 0; i < R; i++)
      if (c + i <= l.inputs && k < l.outputs)
        use(l, k, c + i, sums[i]);
  }
  return tasks;
}

} // namespace
