/* SPDX-License-Identifier: MIT */
/* Opens GPUs through the CUDA runtime, and allocates their memory. */
#include "device/cuda_error.h"
#include "device/device.h"
#include "device/guest_cuda.h"
#include "device/transfer_cuda.h"

/* ---- Opening ---- */

/* Reads the rates of the data sheet. The bandwidth is 87% of that of the data sheet: copies reach so much. */
static gconv_status read_machine(int index, gconv_machine *machine) {
  int multiprocessors, clock_khz, memory_khz, bus_bits;
  CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, index));
  CUDA_TRY(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, index));
  CUDA_TRY(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, index));
  CUDA_TRY(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, index));
  machine->fma_per_ms = 128.0 * multiprocessors * clock_khz;
  machine->bytes_per_ms = 0.87 * 2 * memory_khz * (bus_bits / 8);
  machine->launch_ms = 0.003;
  machine->units = multiprocessors;
  return GCONV_OK;
}

/* Starts the GPU now, so that the first image need not wait for it. */
static gconv_status start(const gconv_device *device) {
  const cudaError_t error = gconv_cuda_enter(device->index);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return gconv_fail(GCONV_NO_MEMORY, "%s has no memory left to begin with: other programs hold it", device->info.name);
  }
  return CUDA_STATUS(error);
}

static gconv_status open_cuda(gconv_device *device) {
  gconv_slabs *slabs = NULL;
  GCONV_TRY(start(device));
  gconv_status status = read_machine(device->index, &device->machine);
  GCONV_THEN(status, gconv_slabs_create(device->index, &slabs));
  gconv_cuda_leave();
  device->state = slabs;
  return status;
}

static void enter(const gconv_device *device) {
  gconv_cuda_enter(device->index);
}

static void close_cuda(gconv_device *device) {
  gconv_cuda_guest guest(device->index);
  gconv_slabs_free((gconv_slabs *)device->state); /* the context belongs to the process */
}

/* ---- Memory ---- */

gconv_status gconv_cuda_allocate(const gconv_device *device, size_t bytes, const char *what, void **memory) {
  gconv_cuda_guest guest(device->index);
  cudaError_t error = bytes <= PTRDIFF_MAX ? cudaMalloc(memory, bytes) : cudaErrorMemoryAllocation;
  if (error != cudaErrorMemoryAllocation) {
    return CUDA_STATUS(error);
  }
  size_t available = 0, total = 0;
  cudaGetLastError();
  cudaMemGetInfo(&available, &total);
  const double MB = 1e6;
  return gconv_fail(GCONV_NO_MEMORY, "%s has no memory for %s: that takes %.0f MB, and %.0f of %.0f MB are free",
                    device->info.name, what, (double)bytes / MB, (double)available / MB, (double)total / MB);
}

gconv_status gconv_cuda_upload(void *to, const void *from, size_t bytes) {
  CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, cudaStreamPerThread));
  return CUDA_STATUS(cudaStreamSynchronize(cudaStreamPerThread));
}

gconv_status gconv_cuda_outcome(const gconv_device *device, const char *algorithm, gconv_status status) {
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    return gconv_cuda_failure(error, algorithm, __FILE__, __LINE__);
  if (status == GCONV_OK || status == GCONV_UNSUPPORTED)
    return status == GCONV_OK ? status : gconv_fail(status, "the algorithm %s failed on %s", algorithm, device->info.name);
  return gconv_fail_in(status, "the algorithm %s on %s", algorithm, device->info.name); /* execute() left a text */
}

extern "C" const gconv_device_type gconv_device_type_cuda = {"cuda",
                                                             gconv_cuda_describe,
                                                             open_cuda,
                                                             close_cuda,
                                                             enter,
                                                             gconv_cuda_leave,
                                                             gconv_cuda_measure_copy,
                                                             gconv_cuda_measure_fma,
                                                             gconv_cuda_measure_launch};
