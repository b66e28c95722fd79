/* SPDX-License-Identifier: MIT */
/* Asks CUDA's driver for properties of GPUs. */
#include "device/device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

/* ---- Starting ---- */

/* The first call that asks the driver something starts the driver. The first call that needs a context makes one. Each takes
 * about 100 ms. */
static bool begun; /* CUDA was asked for its devices, and has not answered that there are none; atomic */

static cudaError_t count_devices(int *count) {
  __atomic_store_n(&begun, true, __ATOMIC_RELEASE);
  cudaError_t error = cudaGetDeviceCount(count);
  if (error != cudaSuccess || *count == 0)
    __atomic_store_n(&begun, false, __ATOMIC_RELEASE);
  cudaGetLastError();
  return error;
}

extern "C" bool gconv_cuda_is_open(void) {
  return __atomic_load_n(&begun, __ATOMIC_ACQUIRE);
}

/* ---- Describing ---- */

static bool describe_unusable(int index, cudaError_t error, gconv_device_info *info) {
  if (index > 0)
    return false;
  *info = gconv_device_info();
  snprintf(info->name, sizeof info->name, "cuda");
  if (error == cudaErrorNoDevice || error == cudaSuccess)
    snprintf(info->reason, sizeof info->reason, "there is no NVIDIA GPU here");
  else if (error == cudaErrorInsufficientDriver)
    snprintf(info->reason, sizeof info->reason, "there is no NVIDIA driver, or one that is too old for CUDA %d.%d",
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  else
    snprintf(info->reason, sizeof info->reason, "CUDA says: %s", cudaGetErrorString(error));
  return true;
}

extern "C" bool gconv_cuda_describe(int index, gconv_device_info *info) {
  int count = 0;
  cudaError_t error = count_devices(&count);
  if (error != cudaSuccess || count == 0)
    return describe_unusable(index, error, info);
  if (index >= count)
    return false;
  *info = gconv_device_info();
  snprintf(info->name, sizeof info->name, "cuda:%d", index);
  cudaDeviceProp properties;
  error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) {
    snprintf(info->reason, sizeof info->reason, "CUDA says: %s", cudaGetErrorString(error));
    return true;
  }
  snprintf(info->description, sizeof info->description, "%.80s, sm_%d%d, %.1f GiB", properties.name, properties.major,
           properties.minor, (double)properties.totalGlobalMem / (1 << 30));
  int driver = 0;
  cudaDriverGetVersion(&driver);
  snprintf(info->driver, sizeof info->driver, "CUDA %d.%d, driver for %d.%d", CUDART_VERSION / 1000,
           CUDART_VERSION % 1000 / 10, driver / 1000, driver % 1000 / 10);
  info->memory_bytes = properties.totalGlobalMem;
  info->usable = properties.major * 10 + properties.minor >= 75;
  if (!info->usable)
    snprintf(info->reason, sizeof info->reason, "compute capability %d.%d is below 7.5", properties.major, properties.minor);
  return true;
}
