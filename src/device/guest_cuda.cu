/* SPDX-License-Identifier: MIT */
/* The driver keeps a stack of contexts for each thread. cudaSetDevice() would start the caller's GPU to go back to it, even
 * where nobody has used it. */
#include "device/guest_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

/* ---- The driver ---- */

static void *find(const char *name, unsigned version) {
  void *function = NULL;
  cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
  cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
#else
  (void)version;
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

/* Finds the context that the runtime works in. It is kept for the process, as the runtime itself keeps it. */
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
