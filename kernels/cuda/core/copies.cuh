/* SPDX-License-Identifier: MIT */
/* Asynchronous copies to shared memory, in groups. GPUs before Ampere copy synchronously. */
#pragma once

#include "unroll.cuh"

#include <cuda_runtime_api.h>
#include <stdint.h>

namespace {

/* Returns the address of an object in shared memory, in the form that PTX instructions take. */
DEVICE uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

/* Loads a word from an address in shared memory. Such loads keep their order and place in the program. */
DEVICE uint32_t load_word(uint32_t shared) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(shared));
  return word;
}

/* Starts a copy of BYTES bytes (4, 8 or 16) from an address that is a multiple of BYTES. Copies of 16 bytes bypass the L1
 * cache. LINES: the L2 cache loads the whole aligned 256 bytes around them. */
template <int BYTES, bool LINES = false> DEVICE void copy_async(uint32_t to, const void *from) {
#if __CUDA_ARCH__ >= 800
  if (BYTES == 16 && LINES)
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else if (LINES)
    asm volatile("cp.async.ca.shared.global.L2::256B [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
#else
  for (int i = 0; i < BYTES / 4; i++)
    ((uint32_t *)__cvta_shared_to_generic(to))[i] = ((const uint32_t *)from)[i];
#endif
}
template <int BYTES, bool LINES = false> DEVICE void copy_async(void *to, const void *from) {
  copy_async<BYTES, LINES>(shared_address(to), from);
}

/* Starts a copy of BYTES bytes (4 or 16) if they are `there`. Otherwise writes zeros; then `from` may be any address. */
template <int BYTES> DEVICE void copy_async_or_zero(uint32_t to, const void *from, bool there) {
#if __CUDA_ARCH__ >= 800
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
#else
  for (int i = 0; i < BYTES / 4; i++)
    ((uint32_t *)__cvta_shared_to_generic(to))[i] = there ? ((const uint32_t *)from)[i] : 0;
#endif
}

/* Closes the current group of copies. */
DEVICE void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most the last LEFT groups of this thread are still under way. */
template <int LEFT> DEVICE void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

/* Waits until all copies of this thread are done, in groups or not. */
DEVICE void await_all_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

} // namespace
