/* SPDX-License-Identifier: MIT */
#include "device/cuda_error.h"

#include <string.h>

gconv_status gconv_cuda_failure(cudaError_t error, const char *expression, const char *file, int line) {
  cudaGetLastError(); /* so that the next call does not report this error */
  const char *slash = strrchr(file, '/');
  return gconv_fail(error == cudaErrorMemoryAllocation ? GCONV_NO_MEMORY : GCONV_DEVICE_ERROR,
                    "CUDA: %s (%s) in %s at %s:%d", cudaGetErrorString(error), cudaGetErrorName(error), expression,
                    slash ? slash + 1 : file, line);
}
