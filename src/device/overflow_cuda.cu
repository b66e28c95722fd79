/* SPDX-License-Identifier: MIT */
#include "base/status.h"
#include "device/overflow_cuda.h"

#include <atomic>
#include <cuda_runtime_api.h>

static std::atomic<int32_t *> noted;

static int32_t *allocate() {
  void *memory = NULL;
  if (cudaHostAlloc(&memory, sizeof(int32_t), cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
    cudaGetLastError();
    return NULL;
  }
  *(int32_t *)memory = 0;
  return (int32_t *)memory;
}

int32_t *gconv_cuda_overflow(void) {
  static int32_t *const number = allocate();
  noted = number;
  return number;
}

void gconv_cuda_tell_overflow(void) {
  volatile int32_t *number = noted;
  if (!number || *number == 0)
    return;
  *number = 0;
  gconv_warn_once("overflow", "numbers between layers are beyond 65504, the largest of float16, or not finite: results are "
                              "wrong there; take --math bf16 or fp32");
}
