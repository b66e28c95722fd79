/* SPDX-License-Identifier: MIT */
/*
 * gemm-tensor: one product of rounded numbers on tensor cores, as --math tf32, fp16 or bf16 allows (tensor.cuh). Numbers of
 * 16 bits have twice the rate of TF32; float16 is scaled by the largest magnitude of an image and group, as in gemm-3xfp16.
 */
#include "tensor.cuh"

namespace {

/* The same member of the product for the problem's math. */
#define BY_MATH(problem, call)                                                                                              \
  ((problem)->math == GCONV_MATH_FP16   ? tensor::product<tensor::fp16, 1>::call                                            \
   : (problem)->math == GCONV_MATH_BF16 ? tensor::product<tensor::bf16, 1>::call                                            \
                                        : tensor::product<tensor::tf32, 1>::call)

struct by_math {
  static const char *supports(const gconv_layer_problem *problem) {
    return BY_MATH(problem, supports(problem));
  }
  static size_t workspace_bytes(const gconv_layer_problem *problem) {
    return BY_MATH(problem, workspace_bytes(problem));
  }
  static gconv_status execute(const gconv_layer_execution *execution) {
    return BY_MATH(execution->problem, execute(execution));
  }
  static double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
    return BY_MATH(problem, cost(problem, machine));
  }
  static double error_bound(const gconv_layer_problem *problem) {
    return BY_MATH(problem, error_bound(problem));
  }
  static size_t prepared_floats(const gconv_layer_problem *problem) {
    return BY_MATH(problem, prepared_floats(problem));
  }
  static gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
    return BY_MATH(problem, prepare(problem, weights, prepared));
  }
  static gconv_status acquire(const gconv_layer_execution *execution, void **state) {
    return BY_MATH(execution->problem, acquire(execution, state));
  }
};

} // namespace

extern "C" constexpr gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_tensor =
    tensor::algorithm_of<by_math>("gemm-tensor", "products rounded as --math says, on tensor cores", true);
