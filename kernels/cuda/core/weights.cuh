/* SPDX-License-Identifier: MIT */
/*
 * What direct and tiled share: weights in blocks of filters, tap after tap, in the order in which a thread uses them; and
 * small helpers of kernels for layers.
 *
 * The K / G filters of a group are cut into blocks of F; the last is filled up with zeros. prepare() writes
 * [group][block][tap][F], with taps in the order of the definition. So a tap's weights are F adjacent floats, which are read
 * from shared memory four at a time.
 */
#pragma once

#include "device/cuda_error.h"
#include "kernels/activation.h"
#include "kernels/layer_algorithm.h"
#include "unroll.cuh"

#include <cuda_runtime_api.h>

namespace {

/* Returns a grid of two dimensions for any number of blocks. It may have some more blocks, which return at once. */
dim3 grid_of(int64_t blocks) {
  int64_t x = blocks < INT32_MAX ? blocks : INT32_MAX;
  return dim3((unsigned)x, (unsigned)divide_up(blocks, x));
}

DEVICE int64_t block_number() {
  return (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
}

int64_t filters_of_group(const gconv_layer_problem *problem) {
  return problem->filters / problem->groups;
}

/* Returns how many filters a block has: 4, 8, 12 or 16. This makes the fewest blocks, and then adds the fewest zeros. */
int block_filters(const gconv_layer_problem *problem) {
  int64_t filters = filters_of_group(problem), blocks = divide_up(filters, 16);
  return (int)(divide_up(divide_up(filters, blocks), 4) * 4);
}

int64_t blocks_of_group(const gconv_layer_problem *problem) {
  return divide_up(filters_of_group(problem), block_filters(problem));
}

size_t prepared_floats(const gconv_layer_problem *problem) {
  return (size_t)(problem->groups * blocks_of_group(problem) * block_filters(problem) * gconv_layer_taps(problem));
}

gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  const int64_t filters = filters_of_group(problem), taps = gconv_layer_taps(problem), blocks = blocks_of_group(problem);
  const int F = block_filters(problem);
  for (int64_t g = 0; g < problem->groups; g++, weights += filters * taps)
    for (int64_t b = 0; b < blocks; b++)
      for (int64_t t = 0; t < taps; t++)
        for (int64_t k = b * F; k < (b + 1) * F; k++)
          *prepared++ = k < filters ? weights[k * taps + t] : 0;
  return GCONV_OK;
}

/* The arguments that the kernels of direct and tiled share. */
struct block_arguments {
  gconv_layer_problem problem;
  const float *weights, *biases; /* in the order of prepare() */
  const float *in;
  float *out;
  int64_t blocks; /* blocks of filters, in a group */
};

block_arguments block_arguments_of(const gconv_layer_execution *e) {
  const gconv_layer_problem *problem = e->problem;
  const float *prepared = gconv_layer_prepared(problem, e->weights), *biases = gconv_layer_biases(problem, e->weights);
  return {*problem, prepared, biases, e->in, e->out, blocks_of_group(problem)};
}

/* Calls launch.operator()<F, N>(), where a block has F filters, and a thread N pixels (1, 2 or 4). */
template <class Launch> gconv_status launch_for(const gconv_layer_problem *problem, int N, const Launch &launch) {
  const auto with = [&]<int F>() {
    N == 4   ? launch.template operator()<F, 4>()
    : N == 2 ? launch.template operator()<F, 2>()
             : launch.template operator()<F, 1>();
  };
  const int filters = block_filters(problem);
  filters == 4    ? with.template operator()<4>()
  : filters == 8  ? with.template operator()<8>()
  : filters == 12 ? with.template operator()<12>()
                  : with.template operator()<16>();
  return CUDA_STATUS(cudaGetLastError());
}

constexpr int64_t MANY_BLOCKS = 300; /* blocks that keep a large GPU busy */

/* For cost(): returns the time of the last multiprocessor to end, as a multiple of the average. A multiprocessor runs `most`
 * blocks at a time. */
double lateness(double blocks, double most, const gconv_machine *machine) {
  const double each = blocks / machine->units;
  return each < most ? ceil(each) / each : ceil(each / most) * most / each;
}

/* sums[k][i] += weights[k] * x[i] */
template <int F, int N> DEVICE void add_tap(float (&sums)[F][N], const float *weights, const float (&x)[N]) {
  UNROLLED_FOR (int k = 0; k < F; k += 4) {
    const float4 w = *(const float4 *)(weights + k);
    const float four[4] = {w.x, w.y, w.z, w.w};
    UNROLLED_FOR (int j = 0; j < 4; j++)
      UNROLLED_FOR (int i = 0; i < N; i++)
        sums[k + j][i] = fmaf(four[j], x[i], sums[k + j][i]);
  }
}

/* gconv_activate() as a call, so that unrolled loops do not repeat the code of rare, long activations. */
__device__ __noinline__ float activate_by_call(const gconv_layer_problem *problem, float v) {
  return gconv_activate(problem, v);
}

DEVICE float activate(const gconv_layer_problem &problem, float v) {
  if (problem.activation == GCONV_ACTIVATION_NONE)
    return v;
  if (problem.activation == GCONV_ACTIVATION_RELU)
    return v < 0 ? 0.0f : v;
  return activate_by_call(&problem, v);
}

/* All threads of the block copy `count` floats, a multiple of 4, from global to shared memory. */
DEVICE void copy_weights(float *to, const float *from, int count) {
  for (int i = 4 * threadIdx.x; i < count; i += 4 * blockDim.x)
    *(float4 *)(to + i) = __ldg((const float4 *)(from + i));
}

/* Returns why indices would overflow an int, or NULL. It checks the index of the last sample under any tap, counted from the
 * first row of the image. */
const char *overflow_obstacle(const gconv_layer_problem *problem) {
  const int64_t most = INT32_MAX / 2;
  const int64_t rows = (int64_t)problem->out_height * problem->stride_y + (int64_t)problem->rows * problem->dilation_y;
  const int64_t columns = (int64_t)problem->out_width * problem->stride_x + (int64_t)problem->columns * problem->dilation_x;
  if (rows > most || columns > most || problem->pad_top > most || problem->pad_left > most)
    return "images or filters that reach over 2^30 pixels";
  return NULL;
}

/* For supports(): returns what direct and tiled cannot do, or NULL. */
const char *block_obstacle(const gconv_layer_problem *problem) {
  if (problem->math != GCONV_MATH_FP32)
    return "math other than fp32";
  if (gconv_layer_taps(problem) > INT32_MAX / 32)
    return "filters of more than 2^26 taps";
  return overflow_obstacle(problem);
}

} // namespace
