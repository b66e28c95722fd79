/* SPDX-License-Identifier: MIT */
/* Failures of CUDA calls, for .cu files. */
#pragma once

#include "base/status.h"

#include <cuda_runtime_api.h>

/* Clears the error, and fails. The text has CUDA's text, the expression and its place. */
gconv_status gconv_cuda_failure(cudaError_t error, const char *expression, const char *file, int line);

/* Returns from the calling function if a CUDA call fails. */
#define CUDA_TRY(expression)                                                                                                \
  do {                                                                                                                      \
    cudaError_t cuda_try_error = (expression);                                                                              \
    if (cuda_try_error != cudaSuccess)                                                                                      \
      return gconv_cuda_failure(cuda_try_error, #expression, __FILE__, __LINE__);                                           \
  } while (0)
