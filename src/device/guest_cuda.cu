/* SPDX-License-Identifier: MIT */
/* This file uses the stack of contexts that the driver has for each thread, not cudaSetDevice(). To go back to the caller's
 * GPU, cudaSetDevice() would start that GPU, even if the caller has never used it. */
#include "device/guest_cuda.h"

#include <cuda.h>

/* ---- The driver ---- */

static void *find(const char *name, unsigned version) {
  void *function = NULL;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
#else
  cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
  return function;
}

struct driver {
  CUresult (*get)(CUdevice *, int) = (CUresult(*)(CUdevice *, int))find("cuDeviceGet", 2000);
  CUresult (*retain)(CUcontext *, CUdevice) = (CUresult(*)(CUcontext *, CUdevice))find("cuDevicePrimaryCtxRetain", 7000);
  CUresult (*push)(CUcontext) = (CUresult(*)(CUcontext))find("cuCtxPushCurrent", 4000);
  CUresult (*pop)(CUcontext *) = (CUresult(*)(CUcontext *))find("cuCtxPopCurrent", 4000);
};

static const driver &get_driver() {
  static const driver own;
  return own;
}

/* ---- Guests ---- */

/* Finds the context in which the runtime works. It is kept until the process ends, as the runtime keeps it, too. */
static CUresult find_context(int device, CUcontext *context) {
  enum { MOST = 64 };
  static CUcontext contexts[MOST]; /* atomic */
  *context = device < MOST ? __atomic_load_n(&contexts[device], __ATOMIC_ACQUIRE) : NULL;
  if (*context)
    return CUDA_SUCCESS;
  CUdevice number;
  CUresult result = get_driver().get(&number, device);
  if (result == CUDA_SUCCESS)
    result = get_driver().retain(context, number);
  if (result == CUDA_SUCCESS && device < MOST)
    __atomic_store_n(&contexts[device], *context, __ATOMIC_RELEASE);
  return result;
}

cudaError_t gconv_cuda_enter(int device) {
  CUcontext context;
  CUresult result = find_context(device, &context);
  if (result == CUDA_SUCCESS)
    result = get_driver().push(context);
  return (cudaError_t)result; /* the numbers are the same */
}

void gconv_cuda_leave(void) {
  CUcontext left;
  get_driver().pop(&left);
}
