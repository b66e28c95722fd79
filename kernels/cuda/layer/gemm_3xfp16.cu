/* SPDX-License-Identifier: MIT */
/*
 * gemm-3xfp16: fp32-class accuracy from the tensor cores' products of 16-bit numbers: each float32 is two float16 digits, 22
 * bits together, and three products of digits make one product (tensor.cuh). At best a third of 990 TFLOP/s; the fastest of
 * all where there is enough to multiply.
 *
 * The digits' range is 2^-24 to 2^16, so that inputs are scaled by the largest magnitude of their image and group, which
 * takes a pass over the input, and filters by their own. What is 2^17 times smaller than the largest loses bits: hence an
 * error bound relative to the largest.
 */
#include "tensor.cuh"

extern "C" constexpr gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_3xfp16 =
    tensor::algorithm_of<tensor::product<tensor::fp16, 2>>(
        "gemm-3xfp16", "fp32-class products of three float16 products each, on tensor cores", true);
