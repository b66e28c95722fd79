/* SPDX-License-Identifier: MIT */
/* Kernels that follow each other closely: the next one is scheduled while the last blocks of this one are at work, and waits
 * by itself for their results. GPUs before Hopper, which cannot do this, start it afterwards. */
#pragma once

#include "device.cuh"
#include "unroll.cuh"

/* Waits until the kernel before has ended, and its results are there. All threads of a kernel that launch_behind() launches
 * call it before they read or write memory that others write or read. */
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
/* Both, for kernels that have nothing to do beforehand. */
static DEVICE void follow_kernel_before() {
  admit_kernel_behind();
  await_kernel_before();
}

/* Launches a kernel that waits by itself for the kernel before it in the stream. `cluster`: blocks along z that are a
 * cluster, on Hopper. */
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
  cudaFuncAttributes code = {}; /* compiled for GPUs before Hopper, a kernel does not wait, also on newer ones */
  const bool waits = capability() >= 9 && cudaFuncGetAttributes(&code, kernel) == cudaSuccess && code.ptxVersion >= 90;
  config.attrs = attributes, config.numAttrs = !waits ? 0 : cluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, TAKEN(given)...);
}
template <class... TAKEN, class... GIVEN>
static cudaError_t launch_behind(void (*kernel)(TAKEN...), dim3 grid, unsigned threads, size_t bytes, cudaStream_t stream,
                                 const GIVEN &...given) {
  return launch_clusters_behind(kernel, grid, 1, threads, bytes, stream, given...);
}
