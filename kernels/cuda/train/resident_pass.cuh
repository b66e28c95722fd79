/* SPDX-License-Identifier: MIT */
/* Forward, backward, gradients and losses of the cases in a block. resident.cu describes the method. */
#pragma once

#include "resident_net.cuh"

namespace {

/* ---- Products ---- */

/* sums[i][m] += w[i][c] * x[c][m] for four inputs from c on. */
template <int K, int N, int ROOM>
__device__ __forceinline__ void multiply_four(const float *const (&w)[K], const float *x, int32_t c, float (&sums)[K][N]) {
  float4 four[K];
  float xs[4][N];
  UNROLLED_FOR (int j = 0; j < 4; j++)
    load_cases(x + (c + j) * PITCH<ROOM>, xs[j]);
  UNROLLED_FOR (int i = 0; i < K; i++)
    four[i] = *(const float4 *)(w[i] + c);
  UNROLLED_FOR (int j = 0; j < 4; j++)
    UNROLLED_FOR (int i = 0; i < K; i++)
      UNROLLED_FOR (int m = 0; m < N; m++)
        sums[i][m] = fmaf(j == 0 ? four[i].x : j == 1 ? four[i].y : j == 2 ? four[i].z : four[i].w, xs[j][m], sums[i][m]);
}

/* Calls use(the layer's activation). The choice is made once, outside the loops of `use`, so that their iterations overlap.
 * Softmax is not applied here, but in a pass of its own. */
template <class Use> __device__ __forceinline__ void with_activation(const resident_layer &l, Use use) {
#define ROW(name, VALUE)                                                                                                    \
  if (l.activation == VALUE)                                                                                                \
    return use(VALUE);
  GCONV_EACH_ACTIVATION(ROW)
#undef ROW
  use(GCONV_ACTIVATION_SOFTMAX);
}

/* Replaces sums by outputs. */
template <int N> __device__ __forceinline__ void activate(const resident_layer &l, float (&values)[N]) {
  with_activation(l, [&](gconv_activation activation) {
    UNROLLED_FOR (int m = 0; m < N; m++)
      values[m] = gconv_activated(activation, l.slope, values[m]);
  });
}

/* Replaces the gradients of outputs by the gradients of sums. */
template <int N>
__device__ __forceinline__ void apply_slopes(const resident_layer &l, const float (&outputs)[N], float (&gradients)[N]) {
  with_activation(l, [&](gconv_activation activation) {
    UNROLLED_FOR (int m = 0; m < N; m++)
      gradients[m] = gconv_learn_slope(activation, l.slope, outputs[m], gradients[m]);
  });
}

/* Stores outputs of a layer, of cases from n on. If the next layer is by cases, only the block of the cases needs them,
 * otherwise all blocks do. */
template <int N, int ROOM, int BLOCKS>
__device__ __forceinline__ void store_outputs(const resident_net &net, bool by_cases, float *at, int32_t n,
                                              const float (&values)[N]) {
  if (BLOCKS == 1 || by_cases) {
    store_cases(at, values);
    const int32_t block = n / (ROOM / BLOCKS); /* of all N cases */
    if (BLOCKS > 1 && block != block_of_cluster<BLOCKS>())
      UNROLLED_FOR (int m = 0; m < N; m++)
        send<BLOCKS>(arrival_of(net, ARRIVED_OUTPUTS), at + m, values[m], block);
  } else {
    UNROLLED_FOR (int m = 0; m < N; m++)
      store<BLOCKS>(false, at + m, values[m]);
  }
}

/* A warp computes K outputs of all cases. by_cases: the next layer is by cases. */
template <int K, int ROOM, int BLOCKS>
__device__ void forward(const resident_net &net, const resident_layer &l, int32_t x_at, int32_t y_at, bool by_cases) {
  constexpr int N = EACH<ROOM>;
  const int32_t tasks = (own_rows<BLOCKS>(l.outputs) + K - 1) / K, n = N * lane_of();
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t k = own_row<BLOCKS>(task * K), count = min(K, l.outputs - k);
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
    ROLLED_FOR (; c < l.inputs; c++) {
      float xs[N];
      load_cases(x + c * PITCH<ROOM>, xs);
      UNROLLED_FOR (int i = 0; i < K; i++)
        UNROLLED_FOR (int m = 0; m < N; m++)
          sums[i][m] = fmaf(w[i][c], xs[m], sums[i][m]);
    }
    float *y = shared + y_at + k * PITCH<ROOM> + n;
    const float *bias = shared + l.w + k * l.w_pitch + l.inputs;
    if constexpr (K * N <= 2) {
      float values[K * N];
      UNROLLED_FOR (int i = 0; i < K * N; i++)
        values[i] = sums[i / N][i % N] + bias[min(i / N, count - 1) * l.w_pitch];
      activate(l, values);
      UNROLLED_FOR (int i = 0; i < K; i++) {
        float own[N];
        UNROLLED_FOR (int m = 0; m < N; m++)
          own[m] = values[i * N + m];
        if (i < count)
          store_outputs<N, ROOM, BLOCKS>(net, by_cases, y + i * PITCH<ROOM>, n, own);
      }
    } else {
      UNROLLED_FOR (int i = 0; i < K;
                    i++) /* sums are stored first: so the code of activations stands once, in the next loop */
        if (i < count)
          store_cases(y + i * PITCH<ROOM>, sums[i]);
      ROLLED_FOR (int i = 0; i < count; i++, y += PITCH<ROOM>, bias += l.w_pitch) {
        float values[N];
        load_cases(y, values);
        UNROLLED_FOR (int m = 0; m < N; m++)
          values[m] = values[m] + *bias;
        activate(l, values);
        store_outputs<N, ROOM, BLOCKS>(net, by_cases, y, n, values);
      }
    }
  }
}

/* Computes the gradient of the sums of `before`, the layer before l. A warp computes C inputs, a multiple of 4, of all
 * cases. last: `before` is the first layer, so no other block needs its gradient. */
template <int C, int ROOM, int BLOCKS>
__device__ void backward(const resident_net &net, const resident_layer &l, const resident_layer &before, bool last) {
  constexpr int N = EACH<ROOM>;
  const int32_t tasks = (own_rows<BLOCKS>(before.outputs) + C - 1) / C, n = N * lane_of();
  for (int32_t task = warp_of(); task < tasks; task += WORKERS) {
    const int32_t c = own_row<BLOCKS>(task * C);
    const float *w = shared + l.w + c, *dz = shared + l.dz + n;
    float sums[C][N] = {};
    const auto add = [&](int32_t k) {
      float ws[C], dzs[N];
      load_cases(dz + k * PITCH<ROOM>, dzs);
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
    UNROLLED_FOR (int i = 0; i < C; i++) {
      if (c + i >= l.inputs)
        continue;
      float outputs[N], values[N];
      load_cases(y + i * PITCH<ROOM>, outputs);
      UNROLLED_FOR (int m = 0; m < N; m++)
        values[m] = sums[i][m] + 0.0f;
      apply_slopes(before, outputs, values);
      if (BLOCKS == 1 || last)
        store_cases(to + i * PITCH<ROOM>, values);
      else
        UNROLLED_FOR (int m = 0; m < N; m++)
          store<BLOCKS>(false, to + i * PITCH<ROOM> + m, values[m]);
    }
  }
}

/* The lane's place in a table of 1 or 4 rows. Reading 16 bytes per lane from shared memory takes half the time if lanes i
 * and i ^ 1 read the same bytes, or if lanes i and i ^ 2 do. So in a table of 4 rows, i and i ^ 1 share a column, i and i ^
 * 2 a row. */
template <int ROWS> __device__ __forceinline__ int32_t row_of_lane() {
  static_assert(ROWS == 1 || ROWS == 4, "bits 0 and 4 of the lane");
  return ROWS == 1 ? 0 : (lane_of() & 1) + (lane_of() >> 3 & 2);
}
template <int ROWS> __device__ __forceinline__ int32_t column_of_lane() {
  return ROWS == 1 ? lane_of() : lane_of() >> 1 & 7;
}

/* Sums x * dz over `count` cases, for K outputs k, k + ROWS ... and C inputs c, c + 32 / ROWS ... */
template <int K, int C, int ROWS, int ROOM>
__device__ void sum_gradients(const resident_layer &l, int32_t x_at, int32_t count, int32_t k, int32_t c,
                              float (&sums)[K][C]) {
  const float *x[C], *dz[K];
  UNROLLED_FOR (int j = 0; j < C; j++)
    x[j] = shared + x_at + min(c + 32 / ROWS * j, l.inputs - 1) * PITCH<ROOM>;
  UNROLLED_FOR (int i = 0; i < K; i++)
    dz[i] = shared + l.dz + min(k + ROWS * i, l.outputs - 1) * PITCH<ROOM>;
  int32_t n = 0;
  UNROLLED_2_FOR (; n + 4 <= count; n += 4) {
    float4 xs[C], dzs[K];
    UNROLLED_FOR (int j = 0; j < C; j++)
      xs[j] = *(const float4 *)(x[j] + n);
    UNROLLED_FOR (int i = 0; i < K; i++)
      dzs[i] = *(const float4 *)(dz[i] + n);
    UNROLLED_FOR (int i = 0; i < K; i++)
      UNROLLED_FOR (int j = 0; j < C; j++) {
        float sum = sums[i][j];
        sum = fmaf(xs[j].x, dzs[i].x, sum);
        sum = fmaf(xs[j].y, dzs[i].y, sum);
        sum = fmaf(xs[j].z, dzs[i].z, sum);
        sums[i][j] = fmaf(xs[j].w, dzs[i].w, sum);
      }
  }
  ROLLED_FOR (; n < count; n++)
    UNROLLED_FOR (int i = 0; i < K; i++)
      UNROLLED_FOR (int j = 0; j < C; j++)
        sums[i][j] = fmaf(x[j][n], dz[i][n], sums[i][j]);
}

/* Returns the gradient of a bias: the sum of dz, because the input of a bias is 1. */
__device__ float sum_bias(const float *dz, int32_t count) {
  float sum = 0;
  int32_t n = 0;
  UNROLLED_4_FOR (; n + 4 <= count; n += 4) {
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

/* Calls use(layer, its number, output, input, gradient) for each parameter of the block's own outputs, from layer `last`
 * down. Input l.inputs is the bias. Lanes are a table of ROWS outputs and 32 / ROWS inputs; a lane has K outputs and C
 * inputs. task: the number of tasks that warps already have. */
template <int ROOM, int BLOCKS, class Use>
__device__ void find_gradients(const resident_net &net, int32_t last, int32_t x_at, int32_t count, int32_t task, Use use) {
  constexpr int K = 4, C = BLOCKS > 1 ? 2 : 4, ROWS = BLOCKS > 1 ? 1 : 4, COLUMNS = 32 / ROWS;
  for (task = warp_of() - task; task < 0; task += WORKERS)
    ;
  for (int32_t i = last; i >= 0; i--) {
    const resident_layer l = net.layers[i];
    const int32_t own = own_rows<BLOCKS>(l.outputs);
    const int32_t wide = (l.inputs + COLUMNS * C - 1) / (COLUMNS * C), tasks = (own + K * ROWS - 1) / (K * ROWS) * wide;
    for (; task < tasks; task += WORKERS) {
      const int32_t k = own_row<BLOCKS>(task / wide * K * ROWS) + row_of_lane<ROWS>();
      const int32_t c = task % wide * COLUMNS * C + column_of_lane<ROWS>();
      float sums[K][C] = {};
      sum_gradients<K, C, ROWS, ROOM>(l, i == 0 ? x_at : l.x, count, k, c, sums);
      UNROLLED_FOR (int a = 0; a < K; a++)
        UNROLLED_FOR (int b = 0; b < C; b++)
          if (k + ROWS * a < l.outputs && c + COLUMNS * b < l.inputs)
            use(l, i, k + ROWS * a, c + COLUMNS * b, sums[a][b]);
    }
    task -= tasks;
  }
  for (int32_t i = last; i >= 0; i--) { /* biases are little work: they come last, to the warps with the fewest tasks */
    const resident_layer l = net.layers[i];
    const int32_t own = own_rows<BLOCKS>(l.outputs), tasks = (own + 31) / 32;
    for (; task < tasks; task += WORKERS) {
      const int32_t at = task * 32 + lane_of(), k = own_row<BLOCKS>(at);
      if (at < own && k < l.outputs)
        use(l, i, k, l.inputs, sum_bias(shared + l.dz + k * PITCH<ROOM>, count));
    }
    task -= tasks;
  }
}

/* ---- Losses ---- */

/* The target of output k of case n. x_at: the offset of the block, whose targets follow its inputs. */
template <int ROOM> __device__ float target_of(const resident_net &net, int32_t x_at, int32_t k, int32_t n) {
  const float target = shared[x_at + (net.inputs + (net.classes ? 0 : k)) * PITCH<ROOM> + n];
  return !net.classes ? target : target == (float)k ? 1.0f : 0.0f;
}

/* Returns the gradient of an output from d = output - target; for cross-entropy, the gradient of its sum. */
__device__ __forceinline__ float output_gradient(const resident_net &net, float factor, float d) {
  return gconv_learn_loss_gradient(net.loss, d, factor);
}

/* Returns the loss of case n, whose outputs are y[k * apart]. For cross-entropy it is the output of the class, from which
 * loss_from() computes the loss. */
template <int ROOM>
__device__ double loss_source(const resident_net &net, int32_t x_at, int32_t n, const float *y, int32_t apart) {
  if (net.loss == GCONV_LOSS_CROSS_ENTROPY)
    return (double)y[(int32_t)shared[x_at + net.inputs * PITCH<ROOM> + n] * apart];
  double loss = 0;
  UNROLLED_4_FOR (int32_t k = 0; k < net.outputs; k++) {
    const double d = (double)y[k * apart] - (double)target_of<ROOM>(net, x_at, k, n);
    loss += gconv_learn_loss_term(net.loss, d);
  }
  return loss;
}
__device__ double loss_from(const resident_net &net, double source) {
  return net.loss == GCONV_LOSS_CROSS_ENTROPY ? gconv_learn_cross_entropy((float)source) : source;
}

/* True if the output of its class is the largest output of case n. Of equal outputs, the first counts as the largest. */
template <int ROOM>
__device__ uint32_t hit_of(const resident_net &net, int32_t x_at, int32_t n, const float *y, int32_t apart) {
  const int32_t target = (int32_t)shared[x_at + net.inputs * PITCH<ROOM> + n];
  const float own = y[target * apart];
  bool miss = false;
  UNROLLED_8_FOR(int32_t k = 0; k < net.outputs; k++) {
    const float other = y[k * apart]; /* no branches: lanes have different targets, and would diverge */
    const bool below = other < own, above = !(other <= own);
    miss |= (k < target && !below) || (k > target && above);
  }
  return !miss;
}

/* By a warp: adds the numbers of the first `count` lanes by a tree. Returns the sum in all lanes. */
__device__ double add_lanes(double v, int32_t count) {
  UNROLLED_FOR (int step = 1; step < 32; step *= 2) {
    const double other = __shfl_down_sync(0xffffffff, v, step);
    v = lane_of() % (2 * step) == 0 && lane_of() + step < count ? v + other : v;
  }
  return __shfl_sync(0xffffffff, v, 0);
}

/* By one warp: adds losses by a tree, in place, and returns the sum. */
__device__ double sum_losses(double *losses, int32_t count) {
  for (int32_t step = 1; step < count; step *= 2) {
    __syncwarp();
    for (int32_t i = 2 * step * lane_of(); i + step < count; i += 2 * step * 32)
      losses[i] += losses[i + step];
  }
  __syncwarp();
  return losses[0];
}

/* ---- All layers, except one by cases ---- */

/* True if parts of `size` outputs keep at least half of the warps busy. Larger parts do more work for each number read. */
template <int BLOCKS> __device__ __forceinline__ bool are_many(const resident_layer &l, int32_t size) {
  return (own_rows<BLOCKS>(l.outputs) + size - 1) / size >= WORKERS / 2;
}

/* Computes the outputs of the first `count` layers, with a barrier after each, unless the next layer is by cases. */
template <int ROOM, int BLOCKS> __device__ void run_forward(const resident_net &net, int32_t x_at, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const resident_layer l = net.layers[i];
    const int32_t x = i == 0 ? x_at : l.x, y = i + 1 < net.count ? net.layers[i + 1].x : net.y;
    const bool by_cases = i + 1 < net.count && net.layers[i + 1].by_cases;
    if (are_many<BLOCKS>(l, 8))
      forward<8, ROOM, BLOCKS>(net, l, x, y, by_cases);
    else if (are_many<BLOCKS>(l, 4))
      forward<4, ROOM, BLOCKS>(net, l, x, y, by_cases);
    else
      forward<2, ROOM, BLOCKS>(net, l, x, y, by_cases);
    if (!by_cases)
      sync_cluster<BLOCKS>();
  }
}

/* By the workers: computes the gradients of the sums of layers last - 1 to 0, with a barrier after each layer. Each block
 * reads the gradients of all blocks. No weights may change before all blocks have read them. */
template <int ROOM, int BLOCKS> __device__ void run_backward(const resident_net &net, int32_t last) {
  for (int32_t i = last; i > 0; i--) {
    const resident_layer l = net.layers[i], before = net.layers[i - 1];
    if (are_many<BLOCKS>(before, 8))
      backward<8, ROOM, BLOCKS>(net, l, before, i == 1);
    else
      backward<4, ROOM, BLOCKS>(net, l, before, i == 1);
    if (BLOCKS > 1)
      sync_cluster<BLOCKS>();
    else
      sync_workers();
  }
}

} // namespace
