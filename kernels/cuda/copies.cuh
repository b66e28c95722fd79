/* SPDX-License-Identifier: MIT */
/* Groups of asynchronous copies to shared memory. Before Ampere, copies are done when they are begun. */
#ifndef GCONV_KERNELS_CUDA_COPIES_CUH
#define GCONV_KERNELS_CUDA_COPIES_CUH

namespace {

/* Ends a group of copies. */
__device__ __forceinline__ void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until all but the last LEFT groups of this thread's copies are there. */
template <int LEFT> __device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

} // namespace

#endif
