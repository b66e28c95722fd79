/* SPDX-License-Identifier: MIT */
/* split-shared-classic: split-classic with a filter in the shared memory of each block (split.cuh). */
#include "split.cuh"

namespace {

extern __shared__ float shared_filter[];

__global__ void __launch_bounds__(1024) multiply_filters(const __grid_constant__ gconv_layer_problem problem,
                                                         const float *weights, const float *matrices, float *out) {
  const int64_t matrix = matrix_rows(problem) * plane_of(problem), taps = gconv_layer_taps(&problem);
  const share filters = divide(problem.filters, blockIdx.x, gridDim.x),
              images = divide(problem.images, filters.index, filters.count),
              pixels = divide(plane_of(problem), images.index * blockDim.x + threadIdx.x, images.count * blockDim.x);
  for (int64_t k = filters.begin; k < filters.end; k++) { /* all threads of a block have the same iterations */
    share_numbers(shared_filter, weights + k * taps, taps);
    for (int64_t n = images.begin; n < images.end && pixels.index == 0; n++)
      multiply_row(problem, shared_filter, gconv_layer_biases(&problem, weights)[k], matrices + n * matrix,
                   out + n * problem.filters * plane_of(problem), k, pixels);
  }
}

size_t filter_bytes(const gconv_layer_problem *problem) {
  return (size_t)gconv_layer_taps(problem) * sizeof(float);
}

gconv_status execute(const gconv_layer_execution *e) {
  const launch_shape shape = split_shape();
  const size_t bytes = filter_bytes(e->problem);
  GCONV_TRY(launch_matrices(e));
  GCONV_TRY(allow_shared(multiply_filters, (int64_t)bytes));
  multiply_filters<<<shape.blocks, shape.threads, bytes, (cudaStream_t)e->stream>>>(*e->problem, e->weights,
                                                                                    (const float *)e->workspace, e->out);
  return CUDA_STATUS(cudaGetLastError());
}

const char *supports(const gconv_layer_problem *problem) {
  const char *obstacle = gconv_layer_takes_fp32(problem);
  return obstacle || filter_bytes(problem) <= shared_limit() ? obstacle : "a filter that does not fit into shared memory";
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_split_shared_classic = {
    .info = {"split-shared-classic", "cuda", "split-classic with a filter in shared memory: to learn from", true},
    .supports = supports,
    .workspace_bytes = matrices_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};
