/* SPDX-License-Identifier: MIT */
/*
 * Forward and backward of a whole slice in one block, by tiles. The lanes of a warp are a table of 4 rows and 8 columns
 * (row_of_lane()). A lane has some outputs, or four inputs, of four neighbouring cases. So each number is used at least four
 * times. In such a table, most reads from shared memory take half the time.
 */
#pragma once

#include "resident_pass.cuh"

namespace {

enum {
  SLICE = GCONV_LEARN_SLICE, /* cases */
  SLICE_GROUPS = SLICE / 32, /* groups of 32 cases; a warp has one at a time */
  SLICE_PITCH = PITCH<SLICE>
};

/* Returns the first of the lane's four cases in a task of its warp. */
__device__ __forceinline__ int32_t first_case(int32_t task) {
  return task % SLICE_GROUPS * 32 + 4 * column_of_lane<4>();
}

/* Computes a layer's outputs, 4 K at a time by a warp. Calls use(output, first case, values) for outputs of a lane. */
template <int K, class Use> __device__ void forward_tiles(const resident_layer &l, int32_t x_at, int32_t y_at, Use use) {
  const int32_t tasks = (l.outputs + 4 * K - 1) / (4 * K) * SLICE_GROUPS;
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t k = task / SLICE_GROUPS * 4 * K + row_of_lane<4>(), n = first_case(task);
    const float *w[K], *x = shared + x_at + n;
    float sums[K][4] = {};
    UNROLLED_FOR (int i = 0; i < K; i++)
      w[i] = shared + l.w + min(k + 4 * i, l.outputs - 1) * l.w_pitch;
    int32_t c = 0;
    UNROLLED_4_FOR (; c + 4 <= l.inputs; c += 4)
      multiply_four<K, 4, SLICE>(w, x, c, sums);
    ROLLED_FOR (; c < l.inputs; c++) {
      float xs[4];
      load_cases(x + c * SLICE_PITCH, xs);
      UNROLLED_FOR (int i = 0; i < K; i++)
        UNROLLED_FOR (int m = 0; m < 4; m++)
          sums[i][m] = fmaf(w[i][c], xs[m], sums[i][m]);
    }
    float *y = shared + y_at + k * SLICE_PITCH + n;
    UNROLLED_FOR (int i = 0; i < K;
                  i++) /* sums are stored first: so the code of activations stands once, in the next loop */
      if (k + 4 * i < l.outputs)
        store_cases(y + 4 * i * SLICE_PITCH, sums[i]);
    const float *bias = shared + l.w + k * l.w_pitch + l.inputs;
    ROLLED_FOR (int32_t own = k; own < min(k + 4 * K, l.outputs); own += 4) {
      float values[4];
      load_cases(y, values);
      UNROLLED_FOR (int m = 0; m < 4; m++)
        values[m] = values[m] + *bias;
      activate(l, values);
      store_cases(y, values);
      use(own, n, values);
      y += 4 * SLICE_PITCH;
      bias += 4 * l.w_pitch;
    }
  }
}

/* Stores the gradients of the last layer's sums (outputs before activation), of output k and four cases; not for softmax. */
__device__ __forceinline__ void differentiate(const resident_net &net, int32_t x_at, int32_t count, int32_t k, int32_t n,
                                              const float (&values)[4]) {
  const resident_layer &l = net.layers[net.count - 1];
  float targets[4], gradients[4];
  load_cases(shared + x_at + (net.inputs + (net.classes ? 0 : k)) * SLICE_PITCH + n, targets);
  UNROLLED_FOR (int m = 0; m < 4; m++) {
    const float target = !net.classes ? targets[m] : targets[m] == (float)k ? 1.0f : 0.0f;
    gradients[m] = output_gradient(net, net.factor, values[m] - target);
  }
  apply_slopes(l, values, gradients);
  UNROLLED_FOR (int m = 0; m < 4; m++) /* values after the last case are arbitrary */
    gradients[m] = n + m < count ? gradients[m] : 0.0f;
  store_cases(shared + l.dz + k * SLICE_PITCH + n, gradients);
}

/* Computes softmax and its gradients. A lane has a case; several warps share its outputs. */
__device__ void soften_slice(const resident_net &net, int32_t x_at, int32_t count) {
  const resident_layer &l = net.layers[net.count - 1];
  constexpr int32_t SHARES = WORKERS / SLICE_GROUPS;
  const int32_t n = warp_of() % SLICE_GROUPS * 32 + lane_of(), share = warp_of() / SLICE_GROUPS;
  float *y = shared + net.y + n, *soft = shared + net.soft + n, *dz = shared + l.dz + n;
  float largest = y[0], sum = 0;
  UNROLLED_8_FOR(int32_t k = 1; k < l.outputs; k++)
  largest = fmaxf(largest, y[k * SLICE_PITCH]);
  for (int32_t k = share; k < l.outputs; k += SHARES)
    soft[k * SLICE_PITCH] = gconv_exp_negative(y[k * SLICE_PITCH] - largest);
  __syncthreads();
  UNROLLED_8_FOR(int32_t k = 0; k < l.outputs; k++)
  sum += soft[k * SLICE_PITCH];
  for (int32_t k = share; k < l.outputs; k += SHARES) {
    const float own = soft[k * SLICE_PITCH] / sum, d = own - target_of<SLICE>(net, x_at, k, n);
    y[k * SLICE_PITCH] = own;
    dz[k * SLICE_PITCH] = n < count ? output_gradient(net, net.factor, d) : 0.0f;
  }
  __syncthreads();
}

/* Runs all layers forward, and computes the gradients of the last layer's sums. */
__device__ void run_slice_forward(const resident_net &net, int32_t x_at, int32_t count) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer l = net.layers[i];
    const bool is_last = i + 1 == net.count, differs = is_last && net.loss != GCONV_LOSS_CROSS_ENTROPY;
    const int32_t x = i == 0 ? x_at : l.x, y = is_last ? net.y : net.layers[i + 1].x;
    const auto use = [&](int32_t k, int32_t n, const float(&values)[4]) {
      if (differs)
        differentiate(net, x_at, count, k, n, values);
    };
    if (l.outputs > 16 * (WORKERS / SLICE_GROUPS - 1)) /* all warps have a task */
      forward_tiles<4>(l, x, y, use);
    else
      forward_tiles<2>(l, x, y, use);
    __syncthreads();
  }
  if (net.loss == GCONV_LOSS_CROSS_ENTROPY)
    soften_slice(net, x_at, count);
}

/* Computes the gradient of the sums of the layer before `l`. A lane has four neighbouring inputs. */
__device__ void backward_tiles(const resident_layer &l, const resident_layer &before) {
  const int32_t tasks = (l.inputs + 15) / 16 * SLICE_GROUPS;
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t c = task / SLICE_GROUPS * 16 + 4 * row_of_lane<4>(), n = first_case(task);
    const float *w = shared + l.w + min(c, l.w_pitch - 4), *dz = shared + l.dz + n;
    float sums[4][4] = {};
    UNROLLED_4_FOR (int32_t k = 0; k < l.outputs; k++) {
      float ws[4], dzs[4];
      load_cases(w + k * l.w_pitch, ws);
      load_cases(dz + k * SLICE_PITCH, dzs);
      UNROLLED_FOR (int i = 0; i < 4; i++)
        UNROLLED_FOR (int m = 0; m < 4; m++)
          sums[i][m] = fmaf(ws[i], dzs[m], sums[i][m]);
    }
    UNROLLED_FOR (int i = 0; i < 4; i++) {
      if (c + i >= l.inputs)
        continue;
      float outputs[4], values[4];
      load_cases(shared + l.x + (c + i) * SLICE_PITCH + n, outputs);
      UNROLLED_FOR (int m = 0; m < 4; m++)
        values[m] = sums[i][m] + 0.0f;
      apply_slopes(before, outputs, values);
      store_cases(shared + before.dz + (c + i) * SLICE_PITCH + n, values);
    }
  }
}

/* Computes the gradients of the sums of all layers but the last. */
__device__ void run_slice_backward(const resident_net &net) {
  for (int32_t i = net.count - 1; i > 0; i--) {
    const resident_layer l = net.layers[i], before = net.layers[i - 1];
    backward_tiles(l, before);
    __syncthreads();
  }
}

} // namespace
