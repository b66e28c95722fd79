/* SPDX-License-Identifier: MIT */
/* separable: what both kernels ask before a launch. */
#ifndef GCONV_CUDA_SEPARABLE_LAUNCH_CUH
#define GCONV_CUDA_SEPARABLE_LAUNCH_CUH

#include "common.cuh"

#include <atomic>
#include <math.h>

namespace {

inline int device_attribute(cudaDeviceAttr attribute, int otherwise) {
  int device, value;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    cudaGetLastError();
    return otherwise;
  }
  return value;
}

inline size_t shared_limit(void) {
  return (size_t)device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 64 << 10);
}

/* How many blocks of a kernel a multiprocessor holds, of which the answer for the last shape is remembered: asking takes
 * longer than a launch. Allows the kernel the shared memory. */
template <auto KERNEL> int blocks_of_multiprocessor(int threads, size_t bytes) {
  static std::atomic<uint64_t> remembered{0}; /* device + 1, bytes, threads, blocks: 12, 24, 16 and 12 bits */
  int device = 0, blocks = 0;
  cudaGetDevice(&device);
  const uint64_t asked = (uint64_t)(device + 1) << 52 | (uint64_t)bytes << 28 | (uint64_t)threads << 12;
  const uint64_t known = remembered.load();
  if (known >> 12 == asked >> 12)
    return (int)(known & 0xfff);
  cudaFuncAttributes attributes = {};
  cudaFuncGetAttributes(&attributes, KERNEL);
  cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       (int)(shared_limit() - attributes.sharedSizeBytes));
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, KERNEL, threads, bytes);
  blocks = blocks < 1 ? 1 : blocks;
  remembered.store(asked | (uint64_t)blocks);
  return blocks;
}

/* Whether scale and offset are all there is to the epilogue of a filter. */
inline bool is_plain(const gconv_execution *execution, int32_t filter) {
  const gconv_problem *problem = execution->problem;
  const gconv_epilogue *epilogue = &problem->epilogue;
  float unscale = gconv_prepared(problem, execution->host_weights)[filter];
  return !gconv_is_combined(problem) && epilogue->scale_low == 0 && !epilogue->absolute && !epilogue->center &&
         gconv_divisors(problem, execution->host_weights)[filter] == 1 &&
         gconv_biases(problem, execution->host_weights)[filter] == 0 && unscale > 0x1p-60f && unscale < 0x1p60f &&
         fabsf(epilogue->scale) < 0x1p20f && (epilogue->scale == 0 || fabsf(epilogue->scale) > 0x1p-20f);
}

} // namespace

#endif
