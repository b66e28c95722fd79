/* SPDX-License-Identifier: MIT */
/*
 * im2col-cublas: the patch matrix of im2col, multiplied by cuBLAS.
 *
 * Many programs do this. It shows how fast a patch matrix can be with the best product of matrices: for K filters of R x S
 * taps, 2 K R S flop a sample at the rate of cuBLAS, and 8 R S bytes to write and read the matrix. cuBLAS is loaded when it
 * is first needed; making its handle takes a tenth of a second.
 *
 * The arithmetic is float32 throughout (pedantic mode: no TF32, no emulation). But cuBLAS adds the products in an order of
 * its own, so this is not the exact family. The bound of a chain holds all the same: in a sum of T products in any order,
 * each product is rounded at most once, and takes part in at most T - 1 additions. So it is off by at most (1 + u)^T - 1 <=
 * T u / (1 - T u), relative to itself (Higham, 3.1).
 */
#include "../classic/patches.cuh"
#include "cublas.cuh"

namespace {

size_t state_bytes(const gconv_problem *problem) {
  return cublas_workspace_bytes(problem->workspace_limit);
}

gconv_status acquire(const gconv_execution *execution, void **state) {
  return cublas_acquire(execution->stream, state_bytes(execution->problem), CUBLAS_PEDANTIC, state);
}

/* ---- The product ---- */

/* sums = taps * patches, transposed (cublas.cuh). */
gconv_status multiply(const gconv_execution *execution, const chunk &part) {
  const gconv_problem *problem = execution->problem;
  cublas_state *state = (cublas_state *)execution->state;
  const float one = 1.0f, zero = 0.0f;
  const int depth = (int)taps_of(problem);
  GCONV_TRY(cublas_go_to(state, execution->stream));
  if (problem->filters == 1)
    CUBLAS_TRY(cublas_sgemv(state->handle, CUBLAS_NOT_TRANSPOSED, part.columns, depth, &one, part.patches, part.pitch,
                            execution->weights, 1, &zero, part.sums, 1));
  else
    CUBLAS_TRY(cublas_sgemm(state->handle, CUBLAS_NOT_TRANSPOSED, CUBLAS_NOT_TRANSPOSED, part.columns, problem->filters,
                            depth, &one, part.patches, part.pitch, execution->weights, depth, &zero, part.sums, part.pitch));
  return GCONV_OK;
}

int64_t columns_of(const gconv_problem *problem) {
  return chunk_columns(problem, (int64_t)(problem->workspace_limit - state_bytes(problem)));
}

size_t workspace_bytes(const gconv_problem *problem) {
  return chunk_bytes(problem, columns_of(problem));
}

gconv_status execute(const gconv_execution *execution) {
  return convolve_chunks(execution, columns_of(execution->problem),
                         [=](const chunk &part) { return multiply(execution, part); });
}

const char *supports(const gconv_problem *problem) {
  if (taps_of(problem) > INT32_MAX)
    return "filters of more than 2^31 taps";
  return columns_of(problem) == 0 ? "32 columns of its patch matrix would exceed the workspace" : NULL;
}

double cost(const gconv_problem *problem, const gconv_machine *machine) {
  return patches_ms(problem, columns_of(problem), machine) + gconv_problem_flop(problem) / 2 / (0.6 * machine->fma_per_ms);
}

} // namespace

extern "C" const gconv_algorithm gconv_algorithm_cuda_im2col_cublas = {
    .info = {"im2col-cublas", "cuda", "patch matrix in chunks, multiplied by cuBLAS", false},
    .available = available,
    .supports = supports,
    .workspace_bytes = workspace_bytes,
    .execute = execute,
    .cost = cost,
    .error_bound = gconv_chain_bound,
    .acquire = acquire,
    .dismiss = dismiss,
    .library = true,
};
