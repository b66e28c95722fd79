/* SPDX-License-Identifier: MIT */
/* Uses a GPU as a guest: when it is done, the caller's GPU is the current one again, as callers such as PyTorch expect. */
#pragma once

#include <cuda_runtime_api.h>

/* gconv_cuda_enter() makes GPU number `device` the current one of the thread. gconv_cuda_leave() makes the GPU before it the
 * current one again. Pairs of calls may be nested. Only the first gconv_cuda_enter() of a GPU, which starts it, may fail. */
cudaError_t gconv_cuda_enter(int device);
void gconv_cuda_leave(void);

/* While this object exists, its GPU, which was started before, is the current one of the thread. */
struct gconv_cuda_guest {
  explicit gconv_cuda_guest(int device) {
    gconv_cuda_enter(device);
  }
  ~gconv_cuda_guest() {
    gconv_cuda_leave();
  }
  gconv_cuda_guest(const gconv_cuda_guest &) = delete;
  gconv_cuda_guest &operator=(const gconv_cuda_guest &) = delete;
};
