/* SPDX-License-Identifier: MIT */
/* Programmatic dependent launch: the next kernel of a stream is scheduled while the last blocks of this kernel run. The next
 * kernel itself waits for their results. GPUs before Hopper cannot do this: they start it after this kernel. */
#pragma once

#include "device.cuh"
#include "unroll.cuh"

/* Waits until the previous kernel of the stream has ended, and its results are visible. All threads of a kernel that
 * launch_behind() launches call this before they access memory that another kernel accesses. */
static DEVICE void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* Lets blocks of the next kernel be scheduled as soon as there is room for them. */
static DEVICE void admit_kernel_behind() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/* Does both, for kernels that have no work before they wait. */
static DEVICE void follow_kernel_before() {
  admit_kernel_behind();
  await_kernel_before();
}

/* Launches a kernel that itself waits for the previous kernel of the stream. `cluster`: blocks of a cluster, along z. */
template <class... TAKEN, class... GIVEN>
static cudaError_t launch_clusters_behind(void (*kernel)(TAKEN...), dim3 grid, unsigned cluster, unsigned threads,
                                          size_t bytes, cudaStream_t stream, const GIVEN &...given) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {1, 1, cluster};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = dim3(threads), config.dynamicSmemBytes = bytes, config.stream = stream;
  /* Code that was compiled for GPUs before Hopper never waits, so it must not start early on newer GPUs either. */
  cudaFuncAttributes code = {};
  const bool waits = capability() >= 9 && cudaFuncGetAttributes(&code, kernel) == cudaSuccess && code.ptxVersion >= 90;
  config.attrs = attributes, config.numAttrs = !waits ? 0 : cluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, TAKEN(given)...);
}
template <class... TAKEN, class... GIVEN>
static cudaError_t launch_behind(void (*kernel)(TAKEN...), dim3 grid, unsigned threads, size_t bytes, cudaStream_t stream,
                                 const GIVEN &...given) {
  return launch_clusters_behind(kernel, grid, 1, threads, bytes, stream, given...);
}
