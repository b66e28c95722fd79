/* SPDX-License-Identifier: MIT */
/*
 * gemm-3xtf32: fp32-class accuracy from tensor cores: each float32 is two TF32 digits, 22 bits together, and three products
 * of digits make one product (tensor.cuh). At best a third of 495 TFLOP/s, half of gemm-3xfp16's; but digits have the range
 * of float32, so that no pass over the input is needed, and the error bound is relative to the products themselves.
 */
#include "tensor.cuh"

namespace {
typedef tensor::product<tensor::tf32, 2> product;

const char *supports(const gconv_layer_problem *problem) {
  return problem->math == GCONV_MATH_FP32 ? product::supports(problem) : "math other than fp32";
}
} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_3xtf32 = {
    .info = {"gemm-3xtf32", "cuda", "fp32-class products of three TF32 products each, on tensor cores", false},
    .available = tensor::available,
    .supports = supports,
    .workspace_bytes = product::workspace_bytes,
    .execute = product::execute,
    .cost = product::cost,
    .error_bound = product::error_bound,
    .prepared_floats = product::prepared_floats,
    .prepare = product::prepare,
    .acquire = product::acquire,
    .dismiss = tensor::dismiss,
};
