/* SPDX-License-Identifier: MIT */
/* split-classic: a kernel for patches, and one for a plain product (split.cuh). */
#include "split.cuh"

namespace {

__global__ void __launch_bounds__(1024) multiply_matrices(const __grid_constant__ gconv_layer_problem problem,
                                                          const float *weights, const float *matrices, float *out) {
  const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, count = (int64_t)gridDim.x * blockDim.x;
  const int64_t matrix = matrix_rows(problem) * plane_of(problem), taps = gconv_layer_taps(&problem);
  const share images = divide(problem.images, index, count), filters = divide(problem.filters, images.index, images.count),
              pixels = divide(plane_of(problem), filters.index, filters.count);
  if (pixels.index > 0)
    return;
  for (int64_t n = images.begin; n < images.end; n++)
    for (int64_t k = filters.begin; k < filters.end; k++)
      multiply_row(problem, weights + k * taps, gconv_layer_biases(&problem, weights)[k], matrices + n * matrix,
                   out + n * problem.filters * plane_of(problem), k, pixels);
}

gconv_status execute(const gconv_layer_execution *e) {
  const launch_shape shape = split_shape();
  GCONV_TRY(launch_matrices(e));
  multiply_matrices<<<shape.blocks, shape.threads, 0, (cudaStream_t)e->stream>>>(*e->problem, e->weights,
                                                                                 (const float *)e->workspace, e->out);
  return CUDA_STATUS(cudaGetLastError());
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_split_classic = {
    .info = {"split-classic", "cuda", "patches, then a plain product, in two kernels: to learn from", true},
    .supports = gconv_layer_takes_fp32,
    .workspace_bytes = matrices_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};
