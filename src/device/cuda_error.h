/* SPDX-License-Identifier: MIT */
/* Failures of CUDA calls, for .cu files. */
#pragma once

#include "base/status.h"

#include <cuda_runtime_api.h>

/* Clears the error, and fails. The text has CUDA's text, the expression and its place. */
gconv_status gconv_cuda_failure(cudaError_t error, const char *expression, const char *file, int line);

/* Returns the status of a CUDA call; after a failure, with its text. */
#define CUDA_STATUS(expression) gconv_cuda_status(expression, #expression, __FILE__, __LINE__)
static inline gconv_status gconv_cuda_status(cudaError_t error, const char *expression, const char *file, int line) {
  return error == cudaSuccess ? GCONV_OK : gconv_cuda_failure(error, expression, file, line);
}

/* Returns from the calling function if a CUDA call fails. */
#define CUDA_TRY(expression) GCONV_TRY(gconv_cuda_status(expression, #expression, __FILE__, __LINE__))
