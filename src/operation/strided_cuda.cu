/* SPDX-License-Identifier: MIT */
/* Copies tensors of any strides within the memory of a GPU. Each thread copies an element at a time. Threads go along the
 * axis on which elements of the result are closest together, so that a warp stores to neighbouring addresses. */
#include "device/cuda_error.h"
#include "device/guest_cuda.h"
#include "operation/strided.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <stdlib.h>

enum { BLOCK = 256 };

/* Four axes, that of the smallest stride first: their lengths, and the strides in both tensors, in bytes. */
struct axes {
  int64_t length[4], from[4], to[4];
};

__device__ inline void convert(__half from, float *to) {
  *to = __half2float(from);
}
__device__ inline void convert(__nv_bfloat16 from, float *to) {
  *to = __bfloat162float(from);
}
__device__ inline void convert(float from, __half *to) {
  *to = __float2half_rn(from);
}
__device__ inline void convert(float from, __nv_bfloat16 *to) {
  *to = __float2bfloat16_rn(from);
}
template <typename T> __device__ inline void convert(T from, T *to) {
  *to = from;
}

template <typename From, typename To>
static __global__ void __launch_bounds__(BLOCK) copy(const char *from, char *to, axes a, int64_t count) {
  for (int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += (int64_t)gridDim.x * BLOCK) {
    int64_t rest = i, source = 0, target = 0;
    for (int axis = 0; axis < 4; axis++) {
      const int64_t at = rest % a.length[axis];
      rest /= a.length[axis];
      source += at * a.from[axis];
      target += at * a.to[axis];
    }
    convert(*(const From *)(from + source), (To *)(to + target));
  }
}

static axes find_axes(const gconv_strided *from, const gconv_strided *to) {
  int order[4] = {3, 2, 1, 0};
  for (int i = 1; i < 4; i++) /* by insertion: the smallest step first */
    for (int j = i; j > 0 && llabs(to->stride[order[j]]) < llabs(to->stride[order[j - 1]]); j--) {
      const int other = order[j];
      order[j] = order[j - 1];
      order[j - 1] = other;
    }
  axes a;
  for (int i = 0; i < 4; i++) {
    a.length[i] = from->shape[order[i]];
    a.from[i] = from->stride[order[i]];
    a.to[i] = to->stride[order[i]];
  }
  return a;
}

extern "C" gconv_status gconv_strided_copy_cuda(int device, const gconv_strided *from, const gconv_strided *to,
                                                void *caller) {
  const int64_t count = from->shape[0] * from->shape[1] * from->shape[2] * from->shape[3];
  const int64_t most = 1 << 20, blocks = (count + BLOCK - 1) / BLOCK;
  const unsigned grid = (unsigned)(blocks < most ? blocks : most);
  const axes a = find_axes(from, to);
  const char *source = (const char *)from->data;
  char *target = (char *)to->data;
  cudaStream_t stream = (cudaStream_t)caller;
  gconv_cuda_guest guest(device);
  if (from->type == GCONV_ELEMENT_F16 && to->type == GCONV_ELEMENT_F32)
    copy<__half, float><<<grid, BLOCK, 0, stream>>>(source, target, a, count);
  else if (from->type == GCONV_ELEMENT_BF16 && to->type == GCONV_ELEMENT_F32)
    copy<__nv_bfloat16, float><<<grid, BLOCK, 0, stream>>>(source, target, a, count);
  else if (from->type == GCONV_ELEMENT_F32 && to->type == GCONV_ELEMENT_F16)
    copy<float, __half><<<grid, BLOCK, 0, stream>>>(source, target, a, count);
  else if (from->type == GCONV_ELEMENT_F32 && to->type == GCONV_ELEMENT_BF16)
    copy<float, __nv_bfloat16><<<grid, BLOCK, 0, stream>>>(source, target, a, count);
  else if (from->type == GCONV_ELEMENT_F32)
    copy<float, float><<<grid, BLOCK, 0, stream>>>(source, target, a, count);
  else if (from->type == GCONV_ELEMENT_U8)
    copy<uint8_t, uint8_t><<<grid, BLOCK, 0, stream>>>(source, target, a, count);
  else
    copy<uint16_t, uint16_t><<<grid, BLOCK, 0, stream>>>(source, target, a, count);
  return CUDA_STATUS(cudaGetLastError());
}

extern "C" void gconv_strided_free_cuda(int device, void *memory) {
  gconv_cuda_guest guest(device);
  cudaFree(memory);
}
