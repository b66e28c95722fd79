/* SPDX-License-Identifier: MIT */
/* Being a guest on a GPU: code of the caller, such as PyTorch's, finds its own GPU the current one again. */
#pragma once

#include <cuda_runtime_api.h>

/* Makes GPU number `device` the current one of the thread, and the one before the current one again; each leave() belongs to
 * the last enter(). The first enter() starts the GPU, and may fail; no later one does. */
cudaError_t gconv_cuda_enter(int device);
void gconv_cuda_leave(void);

/* For its lifetime, the thread is a guest on a GPU that was started. */
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
