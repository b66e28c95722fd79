/* SPDX-License-Identifier: MIT */
/*
 * gemm-tensor: one product of rounded numbers on tensor cores, as --math tf32, fp16 or bf16 allows (tensor.cuh). Numbers of
 * 16 bits have twice the rate of TF32; float16 is scaled by the largest magnitude of an image and group, as in gemm-3xfp16.
 */
#include "tensor.cuh"

namespace {

/* The same member of the product for the problem's math. */
#define BY_MATH(problem, call)                                                                                              \
  ((problem)->math == GCONV_MATH_TF32   ? tensor::product<tensor::tf32, 1>::call                                            \
   : (problem)->math == GCONV_MATH_FP16 ? tensor::product<tensor::fp16, 1>::call                                            \
                                        : tensor::product<tensor::bf16, 1>::call)

const char *supports(const gconv_layer_problem *problem) {
  return problem->math != GCONV_MATH_FP32 ? BY_MATH(problem, supports(problem)) : "math fp32, which it would round";
}
size_t workspace_bytes(const gconv_layer_problem *problem) {
  return BY_MATH(problem, workspace_bytes(problem));
}
gconv_status execute(const gconv_layer_execution *execution) {
  return BY_MATH(execution->problem, execute(execution));
}
double cost(const gconv_layer_problem *problem, const gconv_machine *machine) {
  return BY_MATH(problem, cost(problem, machine));
}
double error_bound(const gconv_layer_problem *problem) {
  return BY_MATH(problem, error_bound(problem));
}
size_t prepared_floats(const gconv_layer_problem *problem) {
  return BY_MATH(problem, prepared_floats(problem));
}
gconv_status prepare(const gconv_layer_problem *problem, const float *weights, float *prepared) {
  return BY_MATH(problem, prepare(problem, weights, prepared));
}
gconv_status acquire(const gconv_layer_execution *execution, void **state) {
  return BY_MATH(execution->problem, acquire(execution, state));
}

} // namespace

extern "C" const gconv_layer_algorithm gconv_layer_algorithm_cuda_gemm_tensor = {
    .info = {"gemm-tensor", "cuda", "products rounded as --math says, on tensor cores", false},
    .available = tensor::available,
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = error_bound,
    .bound_of_largest = true,
    .prepared_floats = prepared_floats,
    .prepare = prepare,
    .acquire = acquire,
    .dismiss = tensor::dismiss,
};
