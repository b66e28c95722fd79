/* SPDX-License-Identifier: MIT */
/* gemm-3xtf32: accuracy of the class of float32 from tensor cores. Each float32 becomes two TF32 digits, 22 bits together,
 * and three products of digits make one product (tensor.cuh). At best a third of 495 TFLOP/s, half of gemm-3xfp16. But the
 * digits have the range of float32, so no pass over the input is needed, and the error bound is relative to the products
 * themselves. */
#include "tensor.cuh"

extern "C" constexpr gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_3xtf32 =
    tensor::algorithm_of<tensor::product<tensor::tf32, 2>>(
        "gemm-3xtf32", "fp32-class products of three TF32 products each, on tensor cores", false);
