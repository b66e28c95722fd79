/* SPDX-License-Identifier: MIT */
/*
 * What the classics of layers share: loops that threads divide, the plain convolution, the matrix of patches, and a plain
 * product. They are kernels to learn from, as a thesis on batched convolution began with them (docs/theses.md).
 *
 * divide() gives a thread its part of a loop. Threads that a loop cannot use divide the next one:
 *
 *     8 threads, 3 images:     thread   0 1   2 3   4 5   6 7        2 threads an image; each of them takes every second
 *                              image     0     1     2    idle       part of the next loop, such as that of the filters
 *
 * The part is contiguous. So if parts are long, neighbouring threads are far apart in memory, and a warp reads from 32
 * places at a time. Neighbours have neighbouring outputs only if there are as many threads as outputs.
 */
#pragma once

#include "../../core/launch.cuh"
#include "../../core/weights.cuh"
#include "kernels/algorithm.h"
#include "launch.h"

namespace {

/* Iterations begin .. end - 1 of a loop. `count` threads have the same iterations; this one is number `index` of them. */
struct share {
  int64_t begin, end, index, count;
};

__host__ __device__ inline share divide(int64_t turns, int64_t index, int64_t count) {
  if (turns >= count) {
    const int64_t each = (turns - 1) / count + 1, begin = index * each;
    return {begin < turns ? begin : turns, begin + each < turns ? begin + each : turns, 0, 1};
  }
  const int64_t sharing = count / turns, own = index / sharing;
  return own < turns ? share{own, own + 1, index % sharing, sharing} : share{0, 0, 0, 1};
}

DEVICE int64_t plane_of(const gconv_layer_problem &problem) { /* Returns the pixels of an output plane. */
  return (int64_t)problem.out_height * problem.out_width;
}

/* Returns the sample of a channel under tap (r, s) of output (p, q); 0 outside the image. */
DEVICE float sample_at(const gconv_layer_problem &problem, const float *channel, int64_t p, int64_t q, int r, int s) {
  const int64_t y = p * problem.stride_y - problem.pad_top + (int64_t)r * problem.dilation_y;
  const int64_t x = q * problem.stride_x - problem.pad_left + (int64_t)s * problem.dilation_x;
  const bool inside = y >= 0 && y < problem.height && x >= 0 && x < problem.width;
  return inside ? channel[y * problem.width + x] : 0.0f;
}

/* ---- The plain convolution ---- */

/* Computes some outputs of image n and filter k. Sums are in memory: each product loads and stores one. */
DEVICE void convolve_part(const gconv_layer_problem &problem, const float *in, const float *weights, float *out, int64_t n,
                          int64_t k, const share &rows, const share &columns) {
  const int channels = problem.channels / problem.groups, taps = problem.rows * problem.columns;
  const int64_t first = k / (problem.filters / problem.groups) * channels, plane = (int64_t)problem.height * problem.width;
  const float bias = gconv_layer_biases(&problem, weights)[k], *weight = weights + k * channels * taps;
  for (int c = 0; c < channels; c++, weight += taps) {
    const float *channel = in + (n * problem.channels + first + c) * plane;
    for (int64_t p = rows.begin; p < rows.end; p++)
      for (int64_t q = columns.begin; q < columns.end; q++) {
        float *sum = out + (n * problem.filters + k) * plane_of(problem) + p * problem.out_width + q;
        if (c == 0)
          *sum = 0;
        for (int r = 0; r < problem.rows; r++)
          for (int s = 0; s < problem.columns; s++)
            *sum = fmaf(weight[r * problem.columns + s], sample_at(problem, channel, p, q, r, s), *sum);
        if (c == channels - 1)
          *sum = activate(problem, *sum + bias);
      }
  }
}

/* ---- The matrix of patches ---- */

/* Returns the rows of an image's matrix, a row for each tap of all channels. It has a column for each output pixel. */
__host__ __device__ inline int64_t matrix_rows(const gconv_layer_problem &problem) {
  return (int64_t)problem.channels * problem.rows * problem.columns;
}

/* Makes the part of an image's matrix that belongs to thread `index` of `count`. The threads divide channels, then rows of
 * the filter, then rows and columns of the output. */
DEVICE void make_patches(const gconv_layer_problem &problem, const float *image, float *patches, int64_t index,
                         int64_t count) {
  const share c = divide(problem.channels, index, count), r = divide(problem.rows, c.index, c.count),
              p = divide(problem.out_height, r.index, r.count), q = divide(problem.out_width, p.index, p.count);
  for (int64_t i = c.begin; i < c.end; i++)
    for (int64_t j = r.begin; j < r.end; j++)
      for (int64_t y = p.begin; y < p.end; y++)
        for (int64_t x = q.begin; x < q.end; x++)
          for (int s = 0; s < problem.columns; s++)
            patches[((i * problem.rows + j) * problem.columns + s) * plane_of(problem) + y * problem.out_width + x] =
                sample_at(problem, image + i * problem.height * problem.width, y, x, (int)j, s);
}

/* Computes some pixels of the output of filter k, from the matrix of an image: sums are in memory here, too. */
DEVICE void multiply_row(const gconv_layer_problem &problem, const float *filter, float bias, const float *patches,
                         float *out, int64_t k, const share &pixels) {
  const int64_t taps = gconv_layer_taps(&problem), plane = plane_of(problem);
  const float *row = patches + k / (problem.filters / problem.groups) * taps * plane;
  float *sums = out + k * plane;
  for (int64_t m = pixels.begin; m < pixels.end; m++)
    sums[m] = 0;
  for (int64_t l = 0; l < taps; l++, row += plane)
    for (int64_t m = pixels.begin; m < pixels.end; m++)
      sums[m] = fmaf(filter[l], row[m], sums[m]);
  for (int64_t m = pixels.begin; m < pixels.end; m++)
    sums[m] = activate(problem, sums[m] + bias);
}

/* Copies numbers to shared memory, for all threads of the block. */
DEVICE void share_numbers(float *to, const float *from, int64_t count) {
  const share own = divide(count, threadIdx.x, blockDim.x);
  __syncthreads(); /* no thread still reads the previous numbers */
  for (int64_t i = own.begin; i < own.end && own.index == 0; i++)
    to[i] = from[i];
  __syncthreads();
}

size_t matrices_bytes(const gconv_layer_problem *problem) {
  return (size_t)problem->images * (size_t)matrix_rows(*problem) * (size_t)problem->out_height * (size_t)problem->out_width *
         sizeof(float);
}

/* ---- Launches ---- */

/* Blocks and threads in one dimension: those that the user gave (--block, --grid), otherwise these. */
struct launch_shape {
  unsigned blocks, threads;
};

launch_shape launch_for(int64_t blocks, int64_t threads) {
  const gconv_classic_launch launch = gconv_classic_layer_launch;
  const int64_t asked = (int64_t)launch.block_width * launch.block_height;
  threads = asked > 0 && asked <= 1024 ? asked : threads < 1024 ? threads : 1024;
  blocks = launch.blocks > 0 ? launch.blocks : blocks < 65535 ? blocks : 65535;
  return {(unsigned)blocks, (unsigned)threads};
}

/* Estimates a kernel in which `threads` threads work. A product takes a thread some 20 ns, which is the latency of memory;
 * all threads together issue 25 instructions for each product. */
double loops_ms(const gconv_layer_problem *problem, double threads, const gconv_machine *machine) {
  const double products = gconv_layer_flop(problem) / 2;
  return machine->launch_ms + products * fmax(25 / machine->fma_per_ms, 2e-5 / threads);
}

} // namespace
