/* SPDX-License-Identifier: MIT */
/*
 * Two layers of filters of 1 x 1, of few channels and few outputs, such as a dense network over features of pixels. A thread
 * has P pixels with all their channels in registers. It goes over the filters of the first layer one by one, and adds each
 * result at once to the sums of the outputs. So nothing is stored between the layers, and threads need no barrier.
 *
 *     shared memory, for each filter of the first layer: | C weights | bias | its OUTS weights in the second layer |
 *
 * For each of these filters, a thread does P (C + OUTS) multiply-adds and (C + OUTS + 1) / 4 loads, the same in all lanes.
 */
#pragma once

#include "pointwise_layers.cuh"

namespace {

constexpr int PAIR_THREADS = 128, MOST_PAIR_CHANNELS = 52, MOST_PAIR_OUTPUTS = 7;

DEVICE float &part_of(float4 &v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Padding channels are -0, and their weights are 0. So their products are -0, and change no sum. */
template <int C, int OUTS> DEVICE void bring_pair(const arguments_of_layers &a, float *shared) {
  constexpr int ROW = C + 1 + OUTS;
  const layer &first = a.layers[0], &second = a.layers[1];
  ROLLED_FOR (int at = (int)threadIdx.x; at < first.filters * ROW; at += PAIR_THREADS) {
    const int h = at / ROW, i = at % ROW, k = i - C - 1;
    shared[at] = i < C                ? i < first.channels ? first.from[h * first.channels + i] : 0.0f
                 : i == C             ? first.from[first.filters * first.channels + h]
                 : k < second.filters ? second.from[k * second.channels + h]
                                      : 0.0f;
  }
}

/* Does gconv_softmax() on values in registers. */
template <int OUTS> DEVICE void soften(float (&v)[OUTS], int count) {
  float largest = v[0], sum = 0;
  UNROLLED_FOR (int k = 1; k < OUTS; k++)
    if (k < count)
      largest = v[k] > largest ? v[k] : largest;
  UNROLLED_FOR (int k = 0; k < OUTS; k++)
    if (k < count) {
      v[k] = gconv_exp_negative(v[k] - largest);
      sum += v[k];
    }
  UNROLLED_FOR (int k = 0; k < OUTS; k++)
    if (k < count)
      v[k] /= sum;
}

template <int OUTS> DEVICE void put_outputs(const arguments_of_layers &a, float (&v)[OUTS], float *out) {
  const layer &last = a.layers[1];
  UNROLLED_FOR (int k = 0; k < OUTS; k++)
    if (k < last.filters)
      v[k] = activate(last, v[k] + last.from[last.filters * last.channels + k]);
  if (a.softmax)
    soften(v, last.filters);
  if (a.argmax) {
    float largest = v[0], lost = v[0] * 0.0f; /* 0, or NaN if a value is not finite, as in gconv_combine_values() */
    int label = 0;
    UNROLLED_FOR (int k = 1; k < OUTS; k++)
      if (k < last.filters) {
        label = v[k] > largest ? k : label;
        largest = v[k] > largest ? v[k] : largest;
        lost += v[k] * 0.0f;
      }
    *out = (float)label + lost;
    return;
  }
  UNROLLED_FOR (int k = 0; k < OUTS; k++)
    if (k < last.filters)
      out[k * a.out_plane] = v[k];
}

template <int C, int P, int OUTS, bool RELU>
__global__ void __launch_bounds__(PAIR_THREADS) pointwise_pair(const __grid_constant__ arguments_of_layers a) {
  constexpr int ROW = C + 1 + OUTS, STEP = PAIR_THREADS * P;
  const layer &first = a.layers[0];
  const float4 *const rows = gconv_pointwise_memory;
  bring_pair<C, OUTS>(a, (float *)gconv_pointwise_memory);
  __syncthreads();
  ROLLED_FOR (int64_t tile = blockIdx.x; tile < a.tiles * a.images; tile += gridDim.x) {
    const int64_t image = tile / a.tiles, begin = tile % a.tiles * STEP + (int64_t)threadIdx.x;
    const float *in = a.in + image * a.in_image + begin;
    float x[C][P], out[P][OUTS];
    UNROLLED_FOR (int c = 0; c < C; c++)
      UNROLLED_FOR (int p = 0; p < P; p++)
        x[c][p] = c < first.channels && begin + p * PAIR_THREADS < a.pixels ? in[c * a.in_plane + p * PAIR_THREADS] : -0.0f;
    if (a.mean) {
      UNROLLED_FOR (int c = 0; c < C; c++)
        if (c < first.channels) {
          const float mean = a.mean[c], deviation = a.deviation[c];
          UNROLLED_FOR (int p = 0; p < P; p++)
            x[c][p] = (x[c][p] - mean) / deviation;
        }
    }
    UNROLLED_FOR (int p = 0; p < P; p++)
      UNROLLED_FOR (int k = 0; k < OUTS; k++)
        out[p][k] = 0;
    ROLLED_FOR (int h = 0; h < first.filters; h++) {
      float sum[P] = {};
      UNROLLED_FOR (int q = 0; q < C / 4; q++) {
        float4 w = rows[h * (ROW / 4) + q];
        UNROLLED_FOR (int i = 0; i < 4; i++)
          UNROLLED_FOR (int p = 0; p < P; p++)
            sum[p] = fmaf(part_of(w, i), x[4 * q + i][p], sum[p]);
      }
      float4 tail[(1 + OUTS) / 4];
      UNROLLED_FOR (int i = 0; i < (1 + OUTS) / 4; i++)
        tail[i] = rows[h * (ROW / 4) + C / 4 + i];
      UNROLLED_FOR (int p = 0; p < P; p++) {
        sum[p] = sum[p] + tail[0].x;
        sum[p] = RELU ? (sum[p] < 0 ? 0.0f : sum[p]) : activate(first, sum[p]);
      }
      UNROLLED_FOR (int k = 0; k < OUTS; k++)
        UNROLLED_FOR (int p = 0; p < P; p++)
          out[p][k] = fmaf(part_of(tail[(k + 1) / 4], (k + 1) % 4), sum[p], out[p][k]);
    }
    UNROLLED_FOR (int p = 0; p < P; p++)
      if (begin + p * PAIR_THREADS < a.pixels)
        put_outputs(a, out[p], a.out + image * a.out_image + begin + p * PAIR_THREADS);
  }
}

template <int C, int P, int OUTS, bool RELU> void launch_pair(arguments_of_layers *a, cudaStream_t stream) {
  const size_t bytes = (size_t)a->layers[0].filters * (C + 1 + OUTS) * sizeof(float);
  a->tiles = divide_up(a->pixels, PAIR_THREADS * P);
  const int64_t blocks = blocks_at_a_time<pointwise_pair<C, P, OUTS, RELU>>(PAIR_THREADS, bytes);
  pointwise_pair<C, P, OUTS, RELU><<<blocks_for(a->tiles * a->images, 1, blocks), PAIR_THREADS, bytes, stream>>>(*a);
}

template <int OUTS, bool RELU> void launch_pair_of(arguments_of_layers *a, cudaStream_t stream) {
  const int32_t channels = a->layers[0].channels;
  channels <= 8    ? launch_pair<8, 4, OUTS, RELU>(a, stream)
  : channels <= 16 ? launch_pair<16, 4, OUTS, RELU>(a, stream)
  : channels <= 20 ? launch_pair<20, 4, OUTS, RELU>(a, stream)
  : channels <= 24 ? launch_pair<24, 4, OUTS, RELU>(a, stream)
  : channels <= 32 ? launch_pair<32, 2, OUTS, RELU>(a, stream)
                   : launch_pair<MOST_PAIR_CHANNELS, 2, OUTS, RELU>(a, stream);
}

bool is_pair(const arguments_of_layers &a) {
  return a.count == 2 && a.layers[0].channels <= MOST_PAIR_CHANNELS && a.layers[1].filters <= MOST_PAIR_OUTPUTS &&
         a.layers[0].filters * (MOST_PAIR_CHANNELS + 1 + MOST_PAIR_OUTPUTS) * sizeof(float) <= 48 << 10;
}

} // namespace
