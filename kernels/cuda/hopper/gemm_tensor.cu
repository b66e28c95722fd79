/* SPDX-License-Identifier: MIT */
/*
 * gemm-tensor: one product of rounded numbers on tensor cores, if --math tf32, fp16 or bf16 allows it (tensor.cuh). Numbers
 * of 16 bits have twice the rate of TF32. float16 is scaled by the largest magnitude of an image and group, as in
 * gemm-3xfp16.
 *
 * float16 has 11 bits like TF32, but less range. Scaled numbers keep all bits down to 2^-28 of the largest number. Smaller
 * numbers lose at most 2^-39 of the largest. So float16 replaces TF32, within the same bound, wherever it is faster: it has
 * twice the rate, and half of the bytes are packed and read, but the largest sample must be found first.
 */
#include "tensor.cuh"

namespace {

/* Returns whether float16 is estimated to be faster than TF32. The search for the largest sample counts, unless tiles have
 * their own scales. With units of taps of a row in planes (NARROW), this returns false: float16 then packs more units, and
 * takes longer than estimated. */
bool is_half_faster(const gconv_layer_problem *problem) {
  const tensor::cut half = tensor::cut_problem(problem, tensor::fp16::U, 1);
  return tensor::has_own_scales(half) || ((half.how != tensor::NARROW || half.flow.steps) &&
                                          half.cycles < 0.91 * tensor::cut_problem(problem, tensor::tf32::U, 1).cycles);
}

template <class E> constexpr gconv_layer_algorithm row = tensor::algorithm_of<tensor::product<E, 1>>("", "");

const gconv_layer_algorithm *row_of(const gconv_layer_problem *problem) {
  return problem->math == GCONV_MATH_BF16                              ? &row<tensor::bf16>
         : problem->math == GCONV_MATH_FP16 || is_half_faster(problem) ? &row<tensor::fp16>
                                                                       : &row<tensor::tf32>;
}

} // namespace

extern "C" constexpr gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_tensor =
    tensor::algorithm_of<tensor::chooser<row_of>>("gemm-tensor", "products rounded as --math says, on tensor cores");
