/* SPDX-License-Identifier: MIT */
/* What the classics share: the samples of a thread, and the epilogue of a sum. */
#pragma once

#include "../core/launch.cuh"
#include "../core/store.cuh"
#include "device/cuda_error.h"

namespace {

/*
 * A block makes blockDim.x pixels of blockDim.y rows of one channel; a thread makes one of them:
 *
 *     columns of the output ->
 *     +---------+---------+---------+
 *     | block   | block   | block   |        the grid:  x  blocks beside each other
 *     | (0, 0)  | (1, 0)  | (2, 0)  |                   y  blocks below each other
 *     +---------+---------+---------+                   z  channels of all planes of all images
 *     | (0, 1)  | (1, 1)  | (2, 1)  |
 *     +---------+---------+---------+
 *
 * A grid has at most 65535 blocks along y and z, and the user may ask for fewer. So each kernel strides over its grid: when
 * a block is done, it goes on with the block that is a whole grid further on.
 */

inline dim3 grid_of(const gconv_problem *problem, dim3 block) {
  return hinted_grid(problem,
                     dim3(blocks_for(problem->out_width, block.x, INT32_MAX),
                          blocks_for(problem->out_height, block.y, 65535), blocks_for(channels_of(problem), 1, 65535)));
}

/* The first pixel of channel number z: place.p and place.q are 0. */
DEVICE place begin_channel(const arguments &a, int64_t z, uint8_t **pixel) {
  const int64_t number = z / a.problem.channels;
  const plane_rows plane = plane_of(a, number);
  *pixel = plane.out;
  return {0, 0, (int32_t)(z - number * a.problem.channels), plane.in};
}

/* Stores an output sample: kept alpha, or the response of each filter. sum_of(k) returns the sum of filter k. `pixel` is the
 * output pixel of filter 0. */
template <class In, class Out, class Sum>
DEVICE void store_sample(const arguments &a, const float *weights, const place &at, uint8_t *pixel, Sum sum_of) {
  if (a.problem.keep_alpha && at.c == a.problem.channels - 1)
    keep_alpha<In, Out>(a, at, pixel);
  else
    store_responses<Out>(a, weights, at.c, pixel, sum_of);
}

/* Calls launch(In(), Out()) for the types of the samples, and returns whether the kernels were launched. */
template <class Launch> gconv_status launch_by_types(const gconv_problem *problem, Launch launch) {
  with_type(problem->in_type, [&](auto in) { with_type(problem->out_type, [&](auto out) { launch(in, out); }); });
  return CUDA_STATUS(cudaGetLastError());
}

/* Estimates a kernel that issues `instructions` instructions for an output sample of each filter. */
inline double classic_ms(const gconv_problem *problem, const gconv_machine *machine, double instructions) {
  return machine->launch_ms + (double)samples_of(problem) * problem->filters * instructions / machine->fma_per_ms;
}

} // namespace
