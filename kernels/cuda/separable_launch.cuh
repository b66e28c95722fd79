/* SPDX-License-Identifier: MIT */
/* separable: what all kernels ask before a launch. */
#ifndef GCONV_CUDA_SEPARABLE_LAUNCH_CUH
#define GCONV_CUDA_SEPARABLE_LAUNCH_CUH

#include "launch.cuh"

#include <atomic>
#include <math.h>

namespace {

/* How many blocks of a kernel the device holds at a time. What a multiprocessor holds is remembered of each device for the
 * last shape: asking takes longer than a launch. Allows the kernel the shared memory. */
template <auto KERNEL> int64_t blocks_of_device(int threads, size_t bytes) {
  static std::atomic<uint64_t> remembered[16]; /* device + 1, bytes, threads, blocks: 12, 24, 16 and 12 bits; 0: nothing */
  int device = 0, blocks = 0;
  cudaGetDevice(&device);
  const int64_t count = multiprocessors();
  const uint64_t asked = (uint64_t)(device + 1) << 52 | (uint64_t)bytes << 28 | (uint64_t)threads << 12;
  const uint64_t known = remembered[device % 16].load();
  if (known >> 12 == asked >> 12)
    return count * (int64_t)(known & 0xfff);
  cudaFuncAttributes attributes = {};
  cudaFuncGetAttributes(&attributes, KERNEL);
  cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       (int)(shared_limit() - attributes.sharedSizeBytes));
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, KERNEL, threads, bytes);
  blocks = blocks < 1 ? 1 : blocks;
  remembered[device % 16].store(asked | (uint64_t)blocks);
  return count * blocks;
}

/* Whether scale and offset are all there is to the epilogue of a filter. */
inline bool is_plain(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  float unscale = gconv_prepared(problem, execution->host_weights)[filter];
  return !gconv_is_combined(problem) && gconv_is_plain(epilogue) && are_bare(execution, filter, 1) && unscale > 0x1p-60f &&
         unscale < 0x1p60f && fabsf(epilogue->scale) < 0x1p20f &&
         (epilogue->scale == 0 || fabsf(epilogue->scale) > 0x1p-20f);
}

} // namespace

#endif
