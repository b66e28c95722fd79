/* SPDX-License-Identifier: MIT */
/* What the current device has, and how much shared memory its kernels may use. */
#pragma once

#include "device/cuda_error.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace {

/* Returns an attribute of the current device, or `otherwise` if the driver does not report it. */
inline int device_attribute(cudaDeviceAttr attribute, int otherwise) {
  int device, value;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) {
    cudaGetLastError();
    return otherwise;
  }
  return value;
}

/* Returns the major compute capability: 8 for 8.6; 0 if there is no device. */
inline int capability() {
  return device_attribute(cudaDevAttrComputeCapabilityMajor, 0);
}

inline int multiprocessors() {
  return device_attribute(cudaDevAttrMultiProcessorCount, 1);
}

/* Returns the most bytes of shared memory that a block may use after allow_shared(). */
inline size_t shared_limit() {
  return (size_t)device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 64 << 10);
}

/* Allows the blocks of a kernel to use `bytes` bytes of dynamic shared memory. The limit is never lowered, since another
 * plan may use the same kernel with more bytes. Up to 48 KB need no permission. */
template <class Kernel> gconv_status allow_shared(Kernel *kernel, int64_t bytes) {
  cudaFuncAttributes now;
  CUDA_TRY(cudaFuncGetAttributes(&now, kernel));
  if (bytes > now.maxDynamicSharedSizeBytes) /* to the device's maximum: so no thread lowers what another has set */
    return CUDA_STATUS(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            std::max((int)bytes, (int)(shared_limit() - now.sharedSizeBytes))));
  return GCONV_OK;
}

} // namespace
