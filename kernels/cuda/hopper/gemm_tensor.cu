/* SPDX-License-Identifier: MIT */
/*
 * gemm-tensor: one product of rounded numbers on tensor cores, if --math tf32, fp16 or bf16 allows it (tensor.cuh). Numbers
 * of 16 bits have twice the rate of TF32. float16 is scaled by the largest magnitude of an image and group, as in
 * gemm-3xfp16.
 *
 * float16 has 11 bits, as TF32 has, but less range. Scaled numbers keep all bits down to 2^-28 of the largest; below that
 * they lose at most 2^-39 of it. So float16 also does the work of TF32, within the same bound, wherever that is faster: it
 * has twice the rate, and half of the bytes are packed and read, but the largest sample must be found first.
 */
#include "tensor.cuh"

namespace {

/* Returns whether float16 is estimated to be faster than TF32, including the search for the largest sample. It is not, if
 * units are taps of a row: then float16 packs more units, and takes longer than estimated. */
bool is_half_faster(const gconv_layer_problem *problem) {
  const tensor::cut half = tensor::cut_problem(problem, tensor::fp16::U, 1);
  return half.how != tensor::NARROW && half.cycles < 0.91 * tensor::cut_problem(problem, tensor::tf32::U, 1).cycles;
}

/* A member of the product for the problem's math. `half`: float16 does the work of TF32. */
#define BY_MATH(problem, half, call)                                                                                        \
  ((problem)->math == GCONV_MATH_BF16             ? tensor::product<tensor::bf16, 1>::call                                  \
   : (problem)->math == GCONV_MATH_FP16 || (half) ? tensor::product<tensor::fp16, 1>::call                                  \
                                                  : tensor::product<tensor::tf32, 1>::call)
#define BY_PROBLEM(problem, call) BY_MATH(problem, is_half_faster(problem), call)

struct by_math {
  static const char *supports(const gconv_layer_problem *problem) {
    return BY_PROBLEM(problem, supports(problem));
  }
  static size_t workspace_bytes(const gconv_layer_problem *problem) {
    return BY_PROBLEM(problem, workspace_bytes(problem));
  }
  /* The problem was cut by acquire(), because that takes longer than many a product. */
  static gconv_status execute(const gconv_layer_execution *execution) {
    const bool half = ((const tensor::cut *)execution->state)->unit == tensor::fp16::U;
    return BY_MATH(execution->problem, half, execute(execution));
  }
  static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
    return BY_PROBLEM(problem, cost(problem, machine));
  }
  static double error_bound(const gconv_layer_problem *problem) {
    return BY_PROBLEM(problem, error_bound(problem));
  }
  static size_t prepared_floats(const gconv_layer_problem *problem) {
    return BY_PROBLEM(problem, prepared_floats(problem));
  }
  static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
    return BY_PROBLEM(problem, prepare(problem, weights, prepared));
  }
  static size_t source_count(const gconv_layer_problem *problem) {
    return BY_PROBLEM(problem, source_count(problem));
  }
  static void fill_sources(const gconv_layer_problem *problem, int32_t *sources) {
    BY_PROBLEM(problem, fill_sources(problem, sources));
  }
  static gconv_status prepare_again(const gconv_layer_execution *execution, const int32_t *sources) {
    const bool half = ((const tensor::cut *)execution->state)->unit == tensor::fp16::U;
    return BY_MATH(execution->problem, half, prepare_again(execution, sources));
  }
  static gconv_status acquire(const gconv_layer_execution *execution, void **state) {
    return BY_PROBLEM(execution->problem, acquire(execution, state));
  }
};

} // namespace

extern "C" constexpr gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_tensor =
    tensor::algorithm_of<by_math>("gemm-tensor", "products rounded as --math says, on tensor cores", true);
