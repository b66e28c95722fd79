/* SPDX-License-Identifier: MIT */
/* Asynchronous copies to shared memory, in groups. GPUs before Ampere have none: there a copy is done at once. */
#ifndef GCONV_KERNELS_CUDA_COPIES_CUH
#define GCONV_KERNELS_CUDA_COPIES_CUH

#include <cuda_runtime_api.h>
#include <stdint.h>

namespace {

/* Starts a copy of BYTES bytes (4, 8 or 16) from an address that is a multiple of BYTES. Copies of 16 bytes bypass the L1
 * cache. */
template <int BYTES> __device__ __forceinline__ void copy_async(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
  const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(BYTES) : "memory");
#else
  for (int i = 0; i < BYTES / 4; i++)
    ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
#endif
}

/* Closes the current group of copies. */
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most the last LEFT groups of this thread are still under way. */
template <int LEFT> __device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

} // namespace

#endif
