/* SPDX-License-Identifier: MIT */
/* What the host asks and decides before a launch. */
#ifndef GCONV_CUDA_LAUNCH_CUH
#define GCONV_CUDA_LAUNCH_CUH

#include "common.cuh"

#include <atomic>

namespace {

/* ---- The device ---- */

/* Of the current one; `otherwise` if it cannot be asked. */
inline int device_attribute(cudaDeviceAttr attribute, int otherwise) {
  int device, value;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    cudaGetLastError();
    return otherwise;
  }
  return value;
}

/* Shared memory that a block may have, if its kernel is allowed it. */
inline size_t shared_limit(void) {
  return (size_t)device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 64 << 10);
}

inline int multiprocessors(void) {
  return device_attribute(cudaDevAttrMultiProcessorCount, 1);
}

/* How many blocks of a kernel the device runs at a time, which always has so many threads and bytes of shared memory. */
template <auto KERNEL> int64_t blocks_at_a_time(int threads, size_t bytes) {
  static std::atomic<int> of_multiprocessor{0}; /* asked for once: it takes longer than a launch */
  int blocks = of_multiprocessor.load(std::memory_order_relaxed);
  if (blocks == 0) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, KERNEL, threads, bytes);
    of_multiprocessor.store(blocks = blocks < 1 ? 1 : blocks, std::memory_order_relaxed);
  }
  return (int64_t)multiprocessors() * blocks;
}

/* ---- Strips ---- */

/* How a way of `all` steps is divided into strips, `across` of which lie side by side, where the device has room for
 * `at_a_time`: the steps of each. Of the numbers of strips that fill it a whole number of times, the one that takes the
 * least time: for a strip of n steps that of n + lead, times the number of fillings. Some strips may take longer, for which
 * others must wait in the end: `eighths` of a filling. */
inline int64_t choose_strip(int64_t all, int64_t lead, int64_t across, int64_t at_a_time, int64_t eighths = 0) {
  int64_t best = all, best_cost = INT64_MAX;
  for (int64_t fillings = 1; fillings <= 16; fillings++) {
    int64_t strips = fillings * at_a_time / across;
    strips = strips < 1 ? 1 : strips > all ? all : strips;
    const int64_t steps = (all - 1) / strips + 1;
    const int64_t needed = (((all - 1) / steps + 1) * across - 1) / at_a_time + 1;
    const int64_t cost = (steps + lead) * (8 * needed + eighths);
    if (cost < best_cost) {
      best_cost = cost;
      best = steps;
    }
  }
  return best;
}

/* ---- The filters ---- */

/* Whether the responses of filters first .. first + count - 1 are their sums. */
inline bool are_bare(const gconv_execution *execution, int32_t first, int32_t count) {
  const float *divisors = gconv_divisors(execution->problem, execution->host_weights);
  const float *biases = gconv_biases(execution->problem, execution->host_weights);
  bool bare = true;
  for (int32_t k = first; k < first + count; k++)
    bare = bare && divisors[k] == 1 && biases[k] == 0;
  return bare;
}

} // namespace

#endif
