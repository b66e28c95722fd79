/* SPDX-License-Identifier: MIT */
/* What the host asks before a launch: of the device, and of the filters. */
#ifndef GCONV_CUDA_LAUNCH_CUH
#define GCONV_CUDA_LAUNCH_CUH

#include "common.cuh"

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
