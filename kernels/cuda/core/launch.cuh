/* SPDX-License-Identifier: MIT */
/* Decisions of the host before a launch: limits of the device, shapes of strips, kinds of filters. */
#pragma once

#include "device.cuh"
#include "samples.cuh"

#include <math.h>

#include <atomic>

namespace {

/* ---- The device ---- */

enum { LANES = 32 }; /* threads of a warp */

/* Finds how many blocks of a kernel fit on a multiprocessor. First allows the kernel all the shared memory of a block. */
template <auto KERNEL> cudaError_t find_blocks(int threads, size_t bytes, int *blocks) {
  cudaFuncAttributes attributes = {};
  cudaError_t error = cudaFuncGetAttributes(&attributes, KERNEL);
  if (error == cudaSuccess && attributes.sharedSizeBytes + bytes > 48 << 10)
    error = cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)(shared_limit() - attributes.sharedSizeBytes));
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, KERNEL, threads, bytes);
  return error;
}

/* Allows the kernel its shared memory, and returns how many of its blocks the device runs at a time, or 1 if the driver does
 * not report it. The last answer is remembered for each device, because asking takes longer than a launch. */
template <auto KERNEL> int64_t blocks_at_a_time(int threads, size_t bytes) {
  static std::atomic<uint64_t>
      remembered[16]; /* device + 1, bytes, threads, blocks, in 12, 24, 16 and 12 bits; 0: nothing is remembered */
  int device = 0, blocks = 0;
  cudaGetDevice(&device);
  const int64_t count = multiprocessors();
  const uint64_t asked = (uint64_t)(device + 1) << 52 | (uint64_t)bytes << 28 | (uint64_t)threads << 12;
  const uint64_t known = remembered[device % 16].load();
  if (known >> 12 == asked >> 12)
    return count * (int64_t)(known & 0xfff);
  if (find_blocks<KERNEL>(threads, bytes, &blocks) != cudaSuccess) {
    cudaGetLastError(); /* forget the error: the launch will report it */
    return 1;
  }
  blocks = blocks < 1 ? 1 : blocks;
  remembered[device % 16].store(asked | (uint64_t)blocks);
  return count * blocks;
}

/* ---- Grids and strips ---- */

/* Returns how many blocks of `block` items cover `count` items, but at most `most`. */
inline unsigned blocks_for(int64_t count, int64_t block, int64_t most) {
  int64_t blocks = (count - 1) / block + 1;
  return (unsigned)(blocks < most ? blocks : most);
}

/* Returns the block size that the user asked for, if it has at most `most` threads. Otherwise `width` x `height`. */
inline dim3 block_for(const gconv_problem *problem, int most, int width, int height) {
  int hinted = problem->block_width * problem->block_height;
  if (hinted == 0 || hinted > most)
    return dim3((unsigned)width, (unsigned)height);
  return dim3((unsigned)problem->block_width, (unsigned)problem->block_height);
}

/* Limits a grid to the number of blocks that the user asked for. The kernel then strides over further items. z shrinks
 * first, then y, so that blocks which run at the same time stay neighbours. */
inline dim3 hinted_grid(const gconv_problem *problem, dim3 grid) {
  if (problem->grid_blocks == 0)
    return grid;
  const unsigned most = (unsigned)problem->grid_blocks;
  grid.x = grid.x < most ? grid.x : most;
  grid.y = grid.y < most / grid.x ? grid.y : most / grid.x;
  grid.z = grid.z < most / grid.x / grid.y ? grid.z : most / grid.x / grid.y;
  return grid;
}

/* Divides columns of `all` steps into strips, and returns the steps of a strip. `across` strips lie side by side, and the
 * device runs `at_a_time` strips at a time: one wave. A strip of n steps takes the time n * unit + lead; the job takes
 * this times the number of waves. Among the heights that fill whole waves, this takes the one with the least time. If some
 * strips take longer, the others wait for them at the end: `eighths` is that time, in eighths of a wave. */
inline int64_t choose_strip(int64_t all, int64_t lead, int64_t across, int64_t at_a_time, int64_t eighths = 0,
                            int64_t unit = 1) {
  int64_t best = all, best_cost = INT64_MAX;
  for (int64_t fillings = 1; fillings <= 16; fillings++) {
    int64_t strips = fillings * at_a_time / across;
    strips = strips < 1 ? 1 : strips > all ? all : strips;
    const int64_t steps = (all - 1) / strips + 1;
    const int64_t needed = (((all - 1) / steps + 1) * across - 1) / at_a_time + 1;
    const int64_t cost = (steps * unit + lead) * (8 * needed + eighths);
    if (cost < best_cost) {
      best_cost = cost;
      best = steps;
    }
  }
  return best;
}

/* ---- The filters ---- */

/* Returns whether the responses of filters first .. first + count - 1 are their plain sums: no divisor and no offset. */
inline bool are_bare(const gconv_execution *execution, int32_t first, int32_t count) {
  const float *divisors = gconv_divisors(execution->problem, execution->host_weights);
  const float *biases = gconv_biases(execution->problem, execution->host_weights);
  bool bare = true;
  for (int32_t k = first; k < first + count; k++)
    bare = bare && divisors[k] == 1 && biases[k] == 0;
  return bare;
}

/* Returns whether the sums of filters first .. first + count - 1 become samples by scale and offset alone: responses are
 * bare and not combined, and there is nothing else in the epilogue. */
inline bool is_plain(const gconv_execution *execution, int32_t first, int32_t count) {
  return gconv_is_plain(&execution->problem->epilogue) && !gconv_is_combined(execution->problem) &&
         are_bare(execution, first, count);
}

/* ---- Samples ---- */

inline int64_t channels_of(const gconv_problem *problem) { /* channels of all planes of all images */
  return (int64_t)problem->images * problem->planes * problem->channels;
}

/* Returns how many output samples a filter has in all images. */
inline int64_t samples_of(const gconv_problem *problem) {
  return channels_of(problem) * problem->out_height * problem->out_width;
}

/* Returns whether the border's constant is a value that input samples can have. If so, kernels treat it as a sample. */
inline bool is_level(const gconv_problem *problem) {
  const float level = problem->border_level, white = gconv_white(problem->in_type);
  return problem->in_type == GCONV_F32 || (level >= 0 && level <= white && level == rintf(level));
}

/* Returns whether the samples of an output row lie side by side. If so, rows begin at multiples of 16 bytes, as
 * gconv_execution promises. ALPHA: alpha that is kept must lie beside the colours, too. */
template <bool ALPHA> bool is_dense(const gconv_execution *execution) {
  const gconv_problem *problem = execution->problem;
  const int64_t size = (int64_t)gconv_type_bytes(problem->out_type);
  return execution->out_pixel == problem->channels * size && (problem->channels == 1 || execution->out_channel == size) &&
         (!ALPHA || !problem->keep_alpha || execution->out_alpha == (problem->channels - 1) * size);
}

} // namespace
