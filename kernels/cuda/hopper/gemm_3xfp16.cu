/* SPDX-License-Identifier: MIT */
/*
 * gemm-3xfp16: nearly the accuracy of float32 from tensor cores, with numbers of 16 bits. Each float32 becomes two float16
 * digits, 22 bits together, and three products of digits make one product (tensor.cuh). So gemm-3xfp16 reaches at best a
 * third of 990 TFLOP/s. It is the fastest algorithm if there is enough to multiply.
 *
 * The digits have a range of 2^-24 to 2^16. So inputs are scaled by the largest magnitude of their image and group, which is
 * found in a pass over the input. Filters are scaled by their own largest magnitude. Numbers more than 2^17 times smaller
 * than the largest lose bits. Therefore the error bound is relative to the largest number.
 *
 * Some layers have their own kernels where these are estimated to be faster: first layers, with few channels (gather.cuh);
 * filters of 1 x 1 (tensor_points.cuh); few taps with many filters (tensor_flow.cuh). The first two need no pass over the
 * input.
 */
#include "gather.cuh"

namespace {

constexpr gconv_layer_algorithm product = tensor::algorithm_of<tensor::product<tensor::fp16, 2>>("", "");
constexpr gconv_layer_algorithm gathered = tensor::algorithm_of<tensor::gather::layer>("", "");

/* Returns the kernel that is estimated to be the faster one. */
const gconv_layer_algorithm *row_of(const gconv_layer_problem *problem) {
  const double limit = tensor::MEASURED * tensor::cut_problem(problem, tensor::fp16::U, 2).cycles;
  return problem->math == GCONV_MATH_FP32 && tensor::gather::cut_problem(problem).cycles < limit ? &gathered : &product;
}

} // namespace

extern "C" constexpr gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_3xfp16 =
    tensor::algorithm_of<tensor::chooser<row_of>>("gemm-3xfp16",
                                                  "fp32-class products of three float16 products each, on tensor cores");
