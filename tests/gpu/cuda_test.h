/* SPDX-License-Identifier: MIT */
/* What test programs that call CUDA themselves share. */
#ifndef GCONV_TEST_CUDA_TEST_H
#define GCONV_TEST_CUDA_TEST_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { SKIPPED = 77 }; /* the exit status where there is no GPU */

static void check_cuda(cudaError_t error, const char *call, int line) {
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
  exit(EXIT_FAILURE);
}
/* Ends the test with a message where a call fails. */
#define CUDA(call) check_cuda(call, #call, __LINE__)

#endif
