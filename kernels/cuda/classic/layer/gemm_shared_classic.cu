/* SPDX-License-Identifier: MIT */
/* gemm-shared-classic: gemm-classic with all filters in shared memory (gemm_one_kernel.cuh). */
#include "gemm_one_kernel.cuh"

namespace {

const char *supports(const gconv_layer_problem *problem) {
  const char *obstacle = gconv_layer_takes_fp32(problem);
  return obstacle || shared_bytes(problem) <= shared_limit() ? obstacle : "filters that do not fit into shared memory";
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_shared_classic = {
    .info = {"gemm-shared-classic", "cuda", "gemm-classic with the filters in shared memory: to learn from", true},
    .supports = supports,
    .workspace_bytes = matrices_bytes,
    .execute = execute<true>,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};
