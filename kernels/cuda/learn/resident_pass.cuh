/* SPDX-License-Identifier: MIT */
/* Forward, backward, gradients and losses of the cases in a block. resident.cu tells how they are done. */
#pragma once

#include "resident_net.cuh"

namespace {

/* ---- Products ---- */

/* sums[i][m] += w[i][c] * x[c][32 m] for four inputs from c on. */
template <int K, int N, int ROOM>
__device__ __forceinline__ void multiply_four(const float *const (&w)[K], const float *x, int32_t c, float (&sums)[K][N]) {
  float4 four[K];
  float xs[4][N];
  UNROLLED_FOR (int j = 0; j < 4; j++)
    UNROLLED_FOR (int m = 0; m < N; m++)
      xs[j][m] = x[(c + j) * PITCH<ROOM> + 32 * m];
  UNROLLED_FOR (int i = 0; i < K; i++)
    four[i] = *(const float4 *)(w[i] + c);
  UNROLLED_FOR (int j = 0; j < 4; j++)
    UNROLLED_FOR (int i = 0; i < K; i++)
      UNROLLED_FOR (int m = 0; m < N; m++)
        sums[i][m] = fmaf(j == 0 ? four[i].x : j == 1 ? four[i].y : j == 2 ? four[i].z : four[i].w, xs[j][m], sums[i][m]);
}

/* A warp computes K outputs of a case, or two, a lane. `awaits`: before anything is stored, the other blocks are awaited. */
template <int K, int ROOM, int BLOCKS>
__device__ void forward(const resident_net &net, const resident_layer &l, int32_t x_at, int32_t y_at, bool awaits) {
  constexpr int N = EACH<ROOM>, GROUPS = ROOM / (32 * N);
  const int32_t tasks = (own_outputs<BLOCKS>(l) + K - 1) / K * GROUPS;
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t k = own_output<BLOCKS>(l, task / GROUPS * K), n = task % GROUPS * 32 * N + lane_of();
    const float *w[K], *x = shared + x_at + n;
    float sums[K][N] = {};
    UNROLLED_FOR (int i = 0; i < K; i++)
      w[i] = shared + l.w + min(k + i, l.outputs - 1) * l.w_pitch;
    int32_t c = 0;
    if constexpr (K * N <= 2) {
      UNROLLED_4_FOR (; c + 4 <= l.inputs; c += 4)
        multiply_four<K, N, ROOM>(w, x, c, sums);
    } else {
      UNROLLED_2_FOR (; c + 4 <= l.inputs; c += 4)
        multiply_four<K, N, ROOM>(w, x, c, sums);
    }
    ROLLED_FOR (; c < l.inputs; c++)
      UNROLLED_FOR (int i = 0; i < K; i++)
        UNROLLED_FOR (int m = 0; m < N; m++)
          sums[i][m] = fmaf(w[i][c], x[c * PITCH<ROOM> + 32 * m], sums[i][m]);
    if (awaits)
      await<BLOCKS>();
    awaits = false;
    float *y = shared + y_at + k * PITCH<ROOM> + n;
    const float *bias = shared + l.w + k * l.w_pitch + l.inputs;
    const int32_t count = min(K, l.outputs - k);
    if constexpr (K * N <= 2) {
      UNROLLED_FOR (int i = 0; i < K; i++)
        UNROLLED_FOR (int m = 0; m < N; m++)
          if (i < count)
            store<BLOCKS>(l.whole, &y[i * PITCH<ROOM> + 32 * m],
                          gconv_learn_activate(l.activation, l.slope, sums[i][m] + bias[i * l.w_pitch]));
    } else {
      UNROLLED_FOR (int i = 0; i < K; i++) /* so that the code of activations is there once */
        UNROLLED_FOR (int m = 0; m < N; m++)
          if (i < count)
            y[i * PITCH<ROOM> + 32 * m] = sums[i][m];
      ROLLED_FOR (int i = 0; i < count; i++, y += PITCH<ROOM>, bias += l.w_pitch)
        UNROLLED_FOR (int m = 0; m < N; m++)
          store<BLOCKS>(l.whole, &y[32 * m], gconv_learn_activate(l.activation, l.slope, y[32 * m] + *bias));
    }
  }
  if (awaits)
    await<BLOCKS>();
}

/* The gradient of the sums of the layer before `l`: a warp computes C inputs, a multiple of 4, of a case, or two, a lane. No
 * other block needs it if there is no layer before that one: it is `last`. */
template <int C, int ROOM, int BLOCKS>
__device__ void backward(const resident_net &net, const resident_layer &l, const resident_layer &before, bool last) {
  constexpr int N = EACH<ROOM>, GROUPS = ROOM / (32 * N);
  const int32_t tasks = (own_outputs<BLOCKS>(before) + C - 1) / C * GROUPS;
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t c = own_output<BLOCKS>(before, task / GROUPS * C), n = task % GROUPS * 32 * N + lane_of();
    const float *w = shared + l.w + c, *dz = shared + l.dz + n;
    float sums[C][N] = {};
    const auto add = [&](int32_t k) {
      float ws[C], dzs[N];
      UNROLLED_FOR (int m = 0; m < N; m++)
        dzs[m] = dz[k * PITCH<ROOM> + 32 * m];
      UNROLLED_FOR (int i = 0; i < C; i += 4) {
        const float4 four = *(const float4 *)(w + k * l.w_pitch + i);
        ws[i] = four.x, ws[i + 1] = four.y, ws[i + 2] = four.z, ws[i + 3] = four.w;
      }
      UNROLLED_FOR (int i = 0; i < C; i++)
        UNROLLED_FOR (int m = 0; m < N; m++)
          sums[i][m] = fmaf(ws[i], dzs[m], sums[i][m]);
    };
    if constexpr (C * N <= 4) {
      UNROLLED_8_FOR(int32_t k = 0; k < l.outputs; k++)
      add(k);
    } else {
      UNROLLED_2_FOR (int32_t k = 0; k < l.outputs; k++)
        add(k);
    }
    const float *y = shared + l.x + c * PITCH<ROOM> + n;
    float *to = shared + before.dz + c * PITCH<ROOM> + n;
    UNROLLED_FOR (int i = 0; i < C; i++)
      UNROLLED_FOR (int m = 0; m < N; m++)
        if (c + i < l.inputs)
          store<BLOCKS>(last, &to[i * PITCH<ROOM> + 32 * m],
                        gconv_learn_slope(before.activation, before.slope, y[i * PITCH<ROOM> + 32 * m], sums[i][m] + 0.0f));
  }
}

/* The sums over `count` cases of x dz, for K outputs from k on and inputs c and c + 32. */
template <int K, int ROOM>
__device__ void sum_gradients(const resident_net &net, const resident_layer &l, int32_t x_at, int32_t count, int32_t k,
                              int32_t c, float (&sums)[K][2]) {
  const float *x[2], *dz[K];
  UNROLLED_FOR (int j = 0; j < 2; j++)
    x[j] = shared + x_at + min(c + 32 * j, l.inputs - 1) * PITCH<ROOM>;
  UNROLLED_FOR (int i = 0; i < K; i++)
    dz[i] = shared + l.dz + min(k + i, l.outputs - 1) * PITCH<ROOM>;
  int32_t n = 0;
  UNROLLED_2_FOR (; n + 4 <= count; n += 4) {
    float4 xs[2], dzs[K];
    UNROLLED_FOR (int j = 0; j < 2; j++)
      xs[j] = *(const float4 *)(x[j] + n);
    UNROLLED_FOR (int i = 0; i < K; i++)
      dzs[i] = *(const float4 *)(dz[i] + n);
    UNROLLED_FOR (int i = 0; i < K; i++)
      UNROLLED_FOR (int j = 0; j < 2; j++) {
        float sum = sums[i][j];
        sum = fmaf(xs[j].x, dzs[i].x, sum);
        sum = fmaf(xs[j].y, dzs[i].y, sum);
        sum = fmaf(xs[j].z, dzs[i].z, sum);
        sums[i][j] = fmaf(xs[j].w, dzs[i].w, sum);
      }
  }
  ROLLED_FOR (; n < count; n++)
    UNROLLED_FOR (int i = 0; i < K; i++)
      UNROLLED_FOR (int j = 0; j < 2; j++)
        sums[i][j] = fmaf(x[j][n], dz[i][n], sums[i][j]);
}

/* Of a bias, whose input is 1. */
__device__ float sum_bias(const float *dz, int32_t count) {
  float sum = 0;
  int32_t n = 0;
  ROLLED_FOR (; n + 4 <= count; n += 4) {
    const float4 four = *(const float4 *)(dz + n);
    sum = sum + four.x;
    sum = sum + four.y;
    sum = sum + four.z;
    sum = sum + four.w;
  }
  ROLLED_FOR (; n < count; n++)
    sum = sum + dz[n];
  return sum;
}

/* Calls use(layer, its number, output, input, gradient) for each parameter of the block's own outputs; a bias is behind
 * the inputs. Neighbouring lanes have neighbouring inputs. */
template <int ROOM, int BLOCKS, class Use>
__device__ void find_gradients(const resident_net &net, int32_t x_at, int32_t count, Use use) {
  constexpr int K = BLOCKS > 1 ? 4 : 8;
  int32_t task = warp_of();
  for (int32_t i = net.count - 1; i >= 0; i--) {
    const resident_layer l = net.layers[i];
    const int32_t own = own_outputs<BLOCKS>(l), biases = (own + 31) / 32;
    const int32_t wide = (l.inputs + 63) / 64, tasks = own / K * wide;
    for (; task < tasks; task += WORKERS) {
      const int32_t k = own_output<BLOCKS>(l, task / wide * K), c = task % wide * 64 + lane_of();
      float sums[K][2] = {};
      sum_gradients<K, ROOM>(net, l, i == 0 ? x_at : l.x, count, k, c, sums);
      UNROLLED_FOR (int a = 0; a < K; a++)
        UNROLLED_FOR (int b = 0; b < 2; b++)
          if (k + a < l.outputs && c + 32 * b < l.inputs)
            use(l, i, k + a, c + 32 * b, sums[a][b]);
    }
    for (; task < tasks + biases; task += WORKERS) {
      const int32_t at = (task - tasks) * 32 + lane_of(), k = own_output<BLOCKS>(l, at);
      if (at < own && k < l.outputs)
        use(l, i, k, l.inputs, sum_bias(shared + l.dz + k * PITCH<ROOM>, count));
    }
    task -= tasks + biases;
  }
}

/* ---- Losses ---- */

/* x_at: where the block is, whose targets stand behind its inputs. */
template <int ROOM> __device__ float target_of(const resident_net &net, int32_t x_at, int32_t k, int32_t n) {
  const float *targets = shared + x_at + net.inputs * PITCH<ROOM> + n;
  return net.classes ? (*targets == (float)k ? 1.0f : 0.0f) : targets[k * PITCH<ROOM>];
}

/* By the workers: the gradient of the sums of the last layer. A lane has a case, whose outputs are shared out among some
 * warps. Returns whether the thread saw a loss that is not finite. */
template <int ROOM> __device__ bool differentiate(const resident_net &net, int32_t x_at, int32_t count, float factor) {
  const resident_layer l = net.layers[net.count - 1];
  constexpr int32_t groups = ROOM / 32, shares = WORKERS / groups;
  const int32_t n = warp_of() % groups * 32 + lane_of();
  const int32_t share = warp_of() / groups;
  const float *y = shared + net.y + n, *soft = shared + net.soft + n;
  const bool softens = net.loss == GCONV_LOSS_CROSS_ENTROPY;
  bool bad = false;
  if (softens) {
    float largest = y[0];
    UNROLLED_8_FOR(int32_t k = 1; k < l.outputs; k++)
    largest = fmaxf(largest, y[k * PITCH<ROOM>]);
    for (int32_t k = share; k < l.outputs; k += shares)
      shared[net.soft + k * PITCH<ROOM> + n] = gconv_exp_negative(y[k * PITCH<ROOM>] - largest);
    meet_workers();
  }
  float sum = 0;
  if (softens)
    UNROLLED_8_FOR(int32_t k = 0; k < l.outputs; k++)
  sum += soft[k * PITCH<ROOM>];
  for (int32_t k = share; k < l.outputs; k += shares) {
    const int32_t at = k * PITCH<ROOM>;
    const float own = softens ? soft[at] / sum : y[at];
    if (softens)
      shared[net.y + at + n] = own;
    if (n >= count)
      continue;
    const float d = own - target_of<ROOM>(net, x_at, k, n);
    bad = bad || !isfinite(own) || !isfinite(d);
    float dy = net.loss == GCONV_LOSS_SSE   ? d
               : net.loss != GCONV_LOSS_MAE ? d * factor
               : d > 0                      ? factor
               : d < 0                      ? -factor
                                            : 0.0f;
    if (!softens)
      dy = gconv_learn_slope(l.activation, l.slope, own, dy);
    shared[l.dz + at + n] = dy;
  }
  return bad;
}

/* The loss of case n; of cross-entropy, the output of its class, from which loss_from() makes the loss. */
template <int ROOM> __device__ double loss_source(const resident_net &net, int32_t x_at, int32_t n) {
  const float *y = shared + net.y + n;
  if (net.loss == GCONV_LOSS_CROSS_ENTROPY)
    return (double)y[(int32_t)shared[x_at + net.inputs * PITCH<ROOM> + n] * PITCH<ROOM>];
  double loss = 0;
  for (int32_t k = 0; k < net.outputs; k++) {
    const double d = (double)y[k * PITCH<ROOM>] - (double)target_of<ROOM>(net, x_at, k, n);
    loss += net.loss == GCONV_LOSS_MAE ? fabs(d) : d * d;
  }
  return loss;
}
__device__ double loss_from(const resident_net &net, double source) {
  return net.loss == GCONV_LOSS_CROSS_ENTROPY ? gconv_learn_cross_entropy((float)source) : source;
}

template <int ROOM> __device__ uint32_t hit_of(const resident_net &net, int32_t x_at, int32_t n) {
  const float *y = shared + net.y + n;
  const int32_t target = (int32_t)shared[x_at + net.inputs * PITCH<ROOM> + n];
  const float own = y[target * PITCH<ROOM>];
  bool miss = false;
  UNROLLED_8_FOR(int32_t k = 0; k < net.outputs; k++)
  miss |= (k < target ? !(y[k * PITCH<ROOM>] < own) : k > target ? !(y[k * PITCH<ROOM>] <= own) : false);
  return !miss;
}

/* The loss of case n, into its place; and whether it was given its class. */
template <int ROOM> __device__ uint32_t find_loss(const resident_net &net, int32_t x_at, int32_t n) {
  ((double *)(shared + net.losses))[n] = loss_from(net, loss_source<ROOM>(net, x_at, n));
  return net.classes ? hit_of<ROOM>(net, x_at, n) : 0;
}

/* By one warp: the losses of a block, summed by a tree. */
__device__ double sum_losses(const resident_net &net, int32_t count) {
  double *losses = (double *)(shared + net.losses);
  for (int32_t step = 1; step < count; step *= 2) {
    __syncwarp();
    for (int32_t i = 2 * step * lane_of(); i + step < count; i += 2 * step * 32)
      losses[i] += losses[i + step];
  }
  __syncwarp();
  return losses[0];
}

/* ---- All layers ---- */

/* Whether parts of `size` of the layer's outputs keep most warps busy. */
template <int ROOM, int BLOCKS> __device__ __forceinline__ bool are_many(const resident_layer &l, int32_t size) {
  return (own_outputs<BLOCKS>(l) + size - 1) / size * (ROOM / 32 / EACH<ROOM>) >= WORKERS * 3 / 4;
}

/* `awaits`: other blocks may still be using what is written now. */
template <int ROOM, int BLOCKS> __device__ void run_forward(const resident_net &net, int32_t x_at, bool awaits) {
  for (int32_t i = 0; i < net.count; i++) {
    const resident_layer l = net.layers[i];
    const int32_t x = i == 0 ? x_at : l.x, y = i + 1 < net.count ? net.layers[i + 1].x : net.y;
    if (are_many<ROOM, BLOCKS>(l, 8))
      forward<8, ROOM, BLOCKS>(net, l, x, y, awaits && i == 0);
    else if (are_many<ROOM, BLOCKS>(l, 4))
      forward<4, ROOM, BLOCKS>(net, l, x, y, awaits && i == 0);
    else
      forward<2, ROOM, BLOCKS>(net, l, x, y, awaits && i == 0);
    if (l.whole)
      meet_workers();
    else
      meet_blocks<BLOCKS>();
  }
}

/* Whether blocks meet behind the way back through layer i: some need the gradient from all, or still read weights of the
 * layer that others are about to change. */
__device__ __forceinline__ bool meets_behind(const resident_net &net, int32_t i) {
  return i > 1 || !net.layers[i].whole;
}

template <int ROOM, int BLOCKS> __device__ void run_backward(const resident_net &net) {
  for (int32_t i = net.count - 1; i > 0; i--) {
    const resident_layer l = net.layers[i], before = net.layers[i - 1];
    if (are_many<ROOM, BLOCKS>(before, 8))
      backward<8, ROOM, BLOCKS>(net, l, before, i == 1);
    else
      backward<4, ROOM, BLOCKS>(net, l, before, i == 1);
    if (meets_behind(net, i))
      meet_blocks<BLOCKS>();
    else
      meet_workers();
  }
}

} // namespace
