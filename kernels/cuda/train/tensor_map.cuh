/* SPDX-License-Identifier: MIT */
/* Copies boxes of a tensor of four dimensions to shared memory, by Hopper's copy engine (TMA). One thread starts a copy.
 * Numbers outside the tensor are 0. */
#pragma once

#include "../hopper/instructions.cuh"

#include <cuda.h>

namespace {

/* A tensor of N x C x H x W floats. A box has `columns` x `rows` x `channels` of one image. */
struct boxed_tensor {
  const float *data;
  int64_t images, channels, height, width;
  int32_t box_channels, box_rows, box_columns;
};

using tensor_encoder = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                    const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Returns the driver's function that makes maps, or NULL if the driver is too old. */
inline tensor_encoder find_tensor_encoder() {
  void *encode = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &encode, cudaEnableDefault, &found);
#endif
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess)
    return (tensor_encoder)encode;
  cudaGetLastError(); /* an old driver is no failure */
  return nullptr;
}

/* Makes the map of a tensor for copy_box(). False on GPUs before Hopper, for rows that are not a multiple of sixteen bytes,
 * and for boxes that are too large. */
inline bool make_tensor_map(const boxed_tensor &of, CUtensorMap *map) {
  static const tensor_encoder encode = find_tensor_encoder();
  if (!encode)
    return false;
  const cuuint64_t row = (cuuint64_t)of.width * sizeof(float), plane = row * (cuuint64_t)of.height;
  const cuuint64_t sizes[] = {(cuuint64_t)of.width, (cuuint64_t)of.height, (cuuint64_t)of.channels, (cuuint64_t)of.images};
  const cuuint64_t distances[] = {row, plane, plane * (cuuint64_t)of.channels};
  const cuuint32_t box[] = {(cuuint32_t)of.box_columns, (cuuint32_t)of.box_rows, (cuuint32_t)of.box_channels, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, (void *)of.data, sizes, distances, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#ifdef COPY_ENGINE
/* Copies a box, dense, to an address that is a multiple of 128, and reports its bytes to the barrier. */
DEVICE void copy_box(const CUtensorMap &map, int32_t column, int32_t row, int32_t channel, int32_t image, float *to,
                     uint64_t *barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to)),
               "l"(&map), "r"(column), "r"(row), "r"(channel), "r"(image), "r"(shared_address(barrier))
               : "memory");
}
#endif

} // namespace
