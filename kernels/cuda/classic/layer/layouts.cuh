/* SPDX-License-Identifier: MIT */
/*
 * nchw-classic, nhwc-classic and nc8hw8-classic: a layer whose images lie in memory in another order. All three orders are
 * one, N x C/X x H x W x X: a pixel has X neighbouring channels. X is 1 for NCHW, 8 for NC/8HW8, and C for NHWC.
 *
 *     images of 2 x 3 x 4 (C x H x W)       NCHW, X = 1        a b c d e f g h i j k l A B C D E F G H I J K L
 *     a b c d   A B C D                     NHWC, X = 2        a A b B c C d D ...
 *     e f g h   E F G H
 *     i j k l   I J K L
 *
 * A thread computes an output, and neighbouring threads compute neighbours in memory. So the 32 threads of a warp compute
 *     NCHW      32 pixels of a filter        they load 32 neighbouring samples, and the same weight
 *     NHWC      32 filters of a pixel        they load the same sample, and 32 neighbouring weights
 *     NC/8HW8   8 filters of 4 pixels
 * If X is a multiple of 4, a load takes four samples: 1.25 loads per product instead of 2.
 *
 * gconv's images are NCHW. So a kernel before rearranges them, and one after brings the outputs back.
 */
#pragma once

#include "loops.cuh"

namespace {

/* Returns X. The template argument is X, or 0 for NHWC, whose channels are padded to a multiple of 4. */
template <int X> GCONV_BOTH int32_t together(int32_t channels) {
  return X > 0 ? X : (channels + 3) / 4 * 4;
}

template <int X> GCONV_BOTH int64_t padded(int32_t channels) {
  const int32_t x = together<X>(channels);
  return ((int64_t)channels + x - 1) / x * x;
}

GCONV_BOTH int64_t out_plane_of(const gconv_layer_problem *problem) {
  return (int64_t)problem->out_height * problem->out_width;
}

/* Copies planes into the order of a layout, or back. A thread takes some samples of the planes. */
template <int X>
__global__ void rearrange(const float *from, float *to, int64_t images, int32_t channels, int64_t plane, bool back) {
  const int32_t x = together<X>(channels);
  const int64_t all = images * channels * plane, step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t n = i / plane / channels, c = i / plane - n * channels, pixel = i % plane;
    const int64_t place = n * padded<X>(channels) * plane + (c / x * plane + pixel) * x + c % x;
    if (back)
      to[i] = from[place];
    else
      to[place] = from[i];
  }
}

/* Weights are [C/X][r][s][X][filter]. Those of padded channels and filters are 0. */
template <int X>
__global__ void __launch_bounds__(1024)
    convolve(const __grid_constant__ gconv_layer_problem problem, const float *in, const float *weights, float *out) {
  enum { LOAD = X == 1 ? 1 : 4 };
  const int32_t x = together<X>(problem.channels), own = together<X>(problem.filters);
  const int64_t filters = padded<X>(problem.filters), blocks = padded<X>(problem.channels) / x,
                plane = gconv_layer_plane(&problem), out_plane = out_plane_of(&problem);
  const int64_t all = problem.images * filters * out_plane, step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t rest = i / own, p = rest % out_plane / problem.out_width, q = rest % problem.out_width;
    const int64_t n = rest / out_plane / (filters / own), k = rest / out_plane % (filters / own) * own + i % own;
    const float *w = gconv_layer_prepared(&problem, weights) + k;
    float sum = 0;
    for (int64_t b = 0; b < blocks; b++)
      for (int r = 0; r < problem.rows; r++)
        for (int s = 0; s < problem.columns; s++, w += x * filters) {
          const int64_t y = p * problem.stride_y - problem.pad_top + (int64_t)r * problem.dilation_y;
          const int64_t column = q * problem.stride_x - problem.pad_left + (int64_t)s * problem.dilation_x;
          const bool inside = y >= 0 && y < problem.height && column >= 0 && column < problem.width;
          const float *samples = in + ((n * blocks + b) * plane + y * problem.width + column) * x;
          for (int32_t c = 0; c < x; c += LOAD) {
            float4 four = make_float4(0, 0, 0, 0);
            if (inside && LOAD == 4)
              four = *(const float4 *)(samples + c);
            else if (inside)
              four.x = samples[c];
            sum = fmaf(w[c * filters], four.x, sum);
            if (LOAD == 4) {
              sum = fmaf(w[(c + 1) * filters], four.y, sum);
              sum = fmaf(w[(c + 2) * filters], four.z, sum);
              sum = fmaf(w[(c + 3) * filters], four.w, sum);
            }
          }
        }
    if (k < problem.filters)
      out[i] = activate(problem, sum + gconv_layer_biases(&problem, weights)[k]);
  }
}

template <int X> int64_t in_floats(const gconv_layer_problem *problem) {
  return X == 1 ? 0 : problem->images * padded<X>(problem->channels) * gconv_layer_plane(problem);
}

template <int X> size_t workspace_bytes(const gconv_layer_problem *problem) {
  const int64_t out = X == 1 ? 0 : problem->images * padded<X>(problem->filters) * out_plane_of(problem);
  return (size_t)(in_floats<X>(problem) + out) * sizeof(float);
}

launch_shape shape_of(int64_t numbers) {
  return launch_for((numbers - 1) / 256 + 1, 256);
}

template <int X> gconv_status execute(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  const cudaStream_t stream = (cudaStream_t)e->stream;
  const int64_t plane = gconv_layer_plane(problem), out_plane = out_plane_of(problem);
  const launch_shape before = shape_of(problem->images * problem->channels * plane),
                     there = shape_of(problem->images * padded<X>(problem->filters) * out_plane);
  float *moved = (float *)e->workspace, *made = X == 1 ? e->out : moved + in_floats<X>(problem);
  if (X != 1) {
    CUDA_TRY(cudaMemsetAsync(moved, 0, (size_t)in_floats<X>(problem) * sizeof(float), stream));
    rearrange<X>
        <<<before.blocks, before.threads, 0, stream>>>(e->in, moved, problem->images, problem->channels, plane, false);
  }
  convolve<X><<<there.blocks, there.threads, 0, stream>>>(*problem, X == 1 ? e->in : moved, e->weights, made);
  if (X != 1)
    rearrange<X>
        <<<there.blocks, there.threads, 0, stream>>>(made, e->out, problem->images, problem->filters, out_plane, true);
  return CUDA_STATUS(cudaGetLastError());
}

const char *supports(const gconv_layer_problem *problem) {
  return problem->groups > 1 ? "groups" : gconv_layer_takes_fp32(problem);
}

template <int X> size_t prepared_floats(const gconv_layer_problem *problem) {
  return (size_t)(padded<X>(problem->channels) * problem->rows * problem->columns * padded<X>(problem->filters));
}

template <int X> gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const int64_t taps = (int64_t)problem->rows * problem->columns, x = together<X>(problem->channels);
  for (int64_t b = 0; b < padded<X>(problem->channels); b += x)
    for (int64_t t = 0; t < taps; t++)
      for (int64_t c = b; c < b + x; c++)
        for (int64_t k = 0; k < padded<X>(problem->filters); k++) {
          const bool there = c < problem->channels && k < problem->filters;
          *prepared++ = there ? weights[(k * problem->channels + c) * taps + t] : 0;
        }
  return GCONV_OK;
}

template <int X> double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  return loops_ms(problem, 256.0 * shape_of(problem->images * padded<X>(problem->filters) * out_plane_of(problem)).blocks,
                  machine);
}

} // namespace

#define LAYOUT(name, title, x)                                                                                              \
  extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_##name##_classic = {                                    \
      .info = {#name "-classic", "cuda", "images as " title ", a thread an output: to learn from", x == 1},                 \
      .supports = supports,                                                                                                 \
      .workspace_bytes = workspace_bytes<x>,                                                                                \
      .execute = execute<x>,                                                                                                \
      .cost = cost<x>,                                                                                                      \
      .error_bound = gconv_layer_chain_bound,                                                                               \
      .prepared_floats = prepared_floats<x>,                                                                                \
      .prepare = prepare<x>,                                                                                                \
  }
