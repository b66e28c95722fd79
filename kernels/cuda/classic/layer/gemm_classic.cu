/* SPDX-License-Identifier: MIT */
/* gemm-classic: patches and product in one kernel, an image per block (gemm_one_kernel.cuh). */
#include "gemm_one_kernel.cuh"

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_classic = {
    .info = {"gemm-classic", "cuda", "patches and product in one kernel, with a barrier between: to learn from", true},
    .supports = gconv_layer_takes_fp32,
    .workspace_bytes = matrices_bytes,
    .execute = execute<false>,
    .cost = cost,
    .error_bound = gconv_layer_chain_bound,
};
